package dynalimit

import "github.com/dynalimit/dynalimit/internal/lane"

// position is a waiter's place in the line of a bucket. The zero position is in no line.
type position struct {
	// waits means that the caller joins a line when it is denied.
	waits  bool
	waiter *lane.Waiter
	lane   *lane.Lane
	// of is the place of the lane.
	of place
}

// rank is the caller's seniority, at every level of its cascade.
func (p *position) rank() uint64 {
	if p.waiter == nil {
		return lane.LastRank
	}
	return p.waiter.Rank
}

func (p *position) quit() {
	if p.lane != nil {
		p.lane.Line.Quit(p.waiter)
		p.lane = nil
	}
}
