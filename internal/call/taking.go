package call

import (
	"github.com/dynalimit/dynalimit/internal/lane"
)

// taking is one try to take the amounts of a call from its buckets. It belongs to its caller's
// goroutine.
type taking struct {
	desk    *Desk
	request *Request
	policy  Policy
	levels  levelList
	tops    tops
	at      *Position // nil for a caller that stands in no line
	// by is the caller: its seniority, at every level, and its class.
	by lane.Caller
	// patience is how long the caller waits for the store.
	patience patience
	// unasked means that the policy admitted at some level before its bucket was asked.
	unasked bool
	// plain means that no bucket granted amounts in a window, of a quota or of slots, and no stock served any.
	plain bool
}

// Position is the place of a caller that waits in the line of a bucket. At first it is in no line.
type Position struct {
	waiter *lane.Waiter
	// lane is the lane of the bucket, and line its line; nil in no line.
	lane *lane.Lane
	line *lane.Line
	// of is the place of the lane.
	of place
}

// quit takes the waiter out of its line, and wakes the heads of the bucket's batch waiters, who may be due
// earlier now. It does nothing in no line. The waiter keeps its rank.
func (p *Position) quit() {
	if p.lane != nil {
		p.line.Quit(p.waiter)
		if batches := p.lane.Waiters(true); batches != nil {
			batches.WakeHeads() // they are due earlier
		}
		p.lane, p.line = nil, nil
	}
}
