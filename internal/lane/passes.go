package lane

import (
	"slices"
	"sync"
	"time"
)

const (
	// heldFor is the time for which a turn keeps its pass at most. A longer one waits for DynamoDB, and no
	// longer for the processors.
	heldFor = 50 * time.Millisecond
	// A parked lane is due restTimes after the rest before, but no later than mostDue.
	restTimes = 4
	mostDue   = 250 * time.Millisecond
	// One turn changes the bound by boundStep up or slowStep down, so that it rises while fewer than one turn in
	// five is slow. Turns are slow above slowTimes the usual time, which one turn changes by the share usualStep.
	boundStep = 1.0 / 32
	slowStep  = 4 * boundStep
	slowTimes = 1.5
	usualStep = 1.0 / 32
)

// Passes bounds the turns that all lanes of a process have in flight, so that a call waits for its own request
// and not for the process's others. A lane without a pass is parked: it gathers ops meanwhile, and its callers may
// leave. The limiters of a repository share one Passes. It is safe for concurrent use. Its mutex is taken under
// those of lanes, and no other one under it.
type Passes struct {
	mu    sync.Mutex
	bound bound
	// held are the passes of the turns in flight, oldest first. The first late ones do not count any more.
	held []pass
	late int
	// parked are the lanes without a pass, in the order of their due instants.
	parked []parkedLane
	// timer is for the next late pass; nil unless lanes are parked.
	timer *time.Timer
}

// pass is the permission for one turn of a lane, which has one in flight at most. among counts the passes in use at its
// start, with its own.
type pass struct {
	lane  any
	began time.Time
	among int
}

// parkedLane is a lane that is due for a pass at an instant. granted is closed when it has one.
type parkedLane struct {
	lane    any
	due     time.Time
	granted chan struct{}
}

// NewPasses returns passes for fewest turns in flight, or more if turns stay fast.
func NewPasses(fewest int) *Passes { return &Passes{bound: bound{fewest: fewest}} }

// takePass takes a pass for the next turn of the lane l, and counts it as held. It returns false, and takes
// none, if no pass is free or other lanes are parked; this lane has to be parked then.
func (p *Passes) takePass(l any) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if len(p.parked) > 0 || len(p.held) >= p.bound.fewest && !p.hasRoom(now) {
		return false
	}
	p.held = append(p.held, pass{l, now, len(p.held) - p.late + 1})
	return true
}

// parkLane parks a lane that has rested since an instant. It returns a channel that is closed when the lane has a pass,
// which returnPass then has to end. The lane that rested for the shortest time before is due first: a wait of the same
// length delays its callers most often. Lanes that rested for long are due in the order of their arrival.
func (p *Passes) parkLane(l any, rested time.Time) (granted <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	rest := min(max(now.Sub(rested), 0), mostDue) // clocks may jump
	due := now.Add(min(restTimes*rest, mostDue))
	i, _ := slices.BinarySearchFunc(p.parked, due, func(w parkedLane, due time.Time) int {
		if w.due.After(due) {
			return 1
		}
		return -1 // behind others due at the same time
	})
	next := parkedLane{l, due, make(chan struct{})}
	p.parked = slices.Insert(p.parked, i, next)
	p.grantFree(now) // a pass may be free by now
	if len(p.parked) > 0 && p.timer == nil {
		p.timer = time.AfterFunc(heldFor-now.Sub(p.held[p.late].began), p.grantLate)
	}
	return next.granted
}

// returnPass ends the turn of a lane, and grants free passes to parked lanes. While lanes are parked, a turn
// that wrote also updates the bound.
func (p *Passes) returnPass(l any, wrote bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := 0
	for p.held[i].lane != l {
		i++
	}
	ended := p.held[i]
	p.held = slices.Delete(p.held, i, i+1)
	if i < p.late {
		p.late--
	}
	if len(p.parked) == 0 {
		return
	}
	now := time.Now()
	if wrote {
		p.bound.learnTurn(now.Sub(ended.began), ended.among)
	}
	p.grantFree(now)
}

// grantLate is the timer's function: turns that have become late no longer count, and parked lanes get their
// passes. It sets the timer again while lanes stay parked.
func (p *Passes) grantLate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.parked) == 0 {
		return
	}
	now := time.Now()
	p.grantFree(now)
	if len(p.parked) > 0 {
		p.timer.Reset(heldFor - now.Sub(p.held[p.late].began))
	}
}

// grantFree gives free passes to parked lanes, in the order of their due instants, and closes their granted. It
// stops the timer if no lane stays parked. p.mu must be held.
func (p *Passes) grantFree(now time.Time) {
	for len(p.parked) > 0 && p.hasRoom(now) {
		next := p.parked[0]
		p.parked[0] = parkedLane{}
		p.parked = p.parked[1:]
		p.held = append(p.held, pass{next.lane, now, len(p.held) - p.late + 1})
		close(next.granted)
	}
	if len(p.parked) == 0 && p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// hasRoom reports whether a pass is free at now. It first stops counting the turns that have become late. p.mu
// must be held.
func (p *Passes) hasRoom(now time.Time) bool {
	for p.late < len(p.held) && now.Sub(p.held[p.late].began) >= heldFor {
		p.late++
	}
	return len(p.held)-p.late < p.bound.most()
}

// bound is the number of turns that may be in flight, learned while lanes are parked. It rises while nearly all turns
// take their usual time. It falls while many take longer, because they wait for a processor. The usual time of a turn
// is the median of the turns with no more than the fewest in flight.
type bound struct {
	fewest int
	// more is the number above fewest.
	more  float64
	usual time.Duration
}

// most returns the most turns that may be in flight: the fewest, and the learnt number above them.
func (b *bound) most() int { return b.fewest + int(b.more) }

// learnTurn raises the bound a little after a turn with a write. It lowers it four times as far if that took
// over one and a half usual times. If among, the turns in flight at its start, is at most fewest, it updates
// the usual time first.
func (b *bound) learnTurn(took time.Duration, among int) {
	if among <= b.fewest {
		switch step := time.Duration(usualStep * float64(b.usual)); {
		case b.usual == 0:
			b.usual = took
		case took > b.usual:
			b.usual += step
		default:
			b.usual -= step
		}
	}
	if float64(took) <= slowTimes*float64(b.usual) {
		b.more += boundStep
	} else {
		b.more = max(b.more-slowStep, 0)
	}
}
