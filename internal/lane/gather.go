package lane

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// Callers come back at once if they do so within a quarter (atOncePart) of the time that their
// write took. The lane waits for them no longer than that, nor than mostGather. It stops when a
// twentieth (quietPart) of the write's time passes without arrivals.
const (
	atOncePart = 4
	quietPart  = 20
	mostGather = 2 * time.Millisecond
)

// An op can wait for others if its remaining time is at least this many times that of a write.
const hurryTimes = 4

// An answer whose callers come back at once raises the trust in them by one, up to mostTrust; any other
// lowers it by lostTrust. The lane waits for them from enoughTrust on.
const (
	enoughTrust = 2
	mostTrust   = 4
	lostTrust   = 2
)

// gather waits after a write for the answered callers, so that they ride in the next one. In a closed
// loop they are back microseconds later. Without the wait, the next write leaves with the callers that queued
// meanwhile. There are then two cohorts, and each waits for the other's write too.
//
// The measure needs no wait: callers come back at once if, in a part of the time that the write took,
// more than half as many takes are queued as the answer granted. In an open loop the share is about
// that part, so nobody waits there for callers that do not come. The lane's goroutine is parked
// meanwhile. The last expected caller wakes it, or a timer.
//
// The lane's mutex guards it. The zero value is ready.
type gather struct {
	// sent is the start of the write in flight, and queued the time since the start of the one before,
	// in which its ops had to queue. counted means that it carries two takes or more. unanswered means
	// that it has granted no take yet.
	sent                time.Time
	queued              time.Duration
	counted, unanswered bool

	// answered is the time of the last such write's answer, took its duration, and granted the number
	// of its granted takes. came counts the takes queued since, before watchEnds.
	answered, watchEnds time.Time
	took                time.Duration
	granted, came       int
	watched             bool

	trust int
	// all is closed when as many takes have come as were granted, or when an op comes that must not
	// wait. It is nil while the lane does not wait.
	all chan struct{}
}

// noteStart records the start of a write with a number of takes, and the time since the start of the one
// before. Fewer than two takes are not measured.
func (g *gather) noteStart(takes int, now time.Time) {
	g.queued, g.sent = now.Sub(g.sent), now
	g.counted, g.unanswered = takes > 1, takes > 1
}

// noteGrant counts a granted take of the write in flight; the first one also updates the trust. It does nothing
// if the write carries fewer than two takes.
func (g *gather) noteGrant() {
	if !g.counted {
		return
	}
	if g.unanswered {
		g.recordAnswer(time.Now())
	}
	g.granted++
}

// recordAnswer updates the trust at the first grant of an answer. It rises if more than half the callers of the
// last answer came back at once, else it falls. It then counts the callers of this answer.
func (g *gather) recordAnswer(now time.Time) {
	switch {
	case g.granted < 2: // nothing was to be seen
	case 2*g.came > g.granted:
		g.trust = min(g.trust+1, mostTrust)
	default:
		g.trust = max(g.trust-lostTrust, 0)
	}
	g.unanswered, g.answered, g.took, g.granted, g.came, g.watched = false, now, now.Sub(g.sent), 0, 0, true
	g.watchEnds = now.Add(min(g.took, g.queued) / atOncePart) // of two writes the slow one shows too many
}

// noteArrival is called with each queued op. It counts a take that comes back at once. It ends the wait if all
// expected takes have come or the op must not wait.
func (g *gather) noteArrival(o *Op) {
	if !g.watched && g.all == nil {
		return
	}
	now := time.Now()
	if g.watched = now.Before(g.watchEnds); g.watched && o.Take {
		g.came++
	}
	if g.came >= g.granted || g.hurries(o, now) {
		g.endWait()
	}
}

// hurries reports whether an op must not wait for others: an adjust, one refused before, or one with less time
// left than four writes take.
func (g *gather) hurries(o *Op, now time.Time) bool {
	soon := now.Add(hurryTimes * g.took)
	deadline, bounded := o.ctx.Deadline()
	return !o.Take || o.Refusals > 0 || bounded && deadline.Before(soon) || !o.Until.IsZero() && o.Until.Before(soon)
}

// startWait returns a channel that is closed at the end of the wait. It is nil if the next write starts at
// once: callers did not come back at once of late, or one of ops, the queue, must not wait.
func (g *gather) startWait(ops []*Op, now time.Time) <-chan struct{} {
	if g.unanswered || g.granted < 2 || g.trust < enoughTrust || slices.ContainsFunc(ops, func(o *Op) bool { return g.hurries(o, now) }) {
		return nil
	}
	all := make(chan struct{})
	if g.all = all; g.came >= g.granted {
		g.endWait()
	}
	return all
}

// awaitCallers lets the callers of a write of several takes come back, so that they ride in the very next
// write. It waits if they come back at once and writes are not paced; else it lets other goroutines run. mu
// guards the queue.
func (g *gather) awaitCallers(mu sync.Locker, q *queue, paced bool) {
	var all <-chan struct{}
	if !paced {
		mu.Lock()
		all = g.startWait(q.ops, time.Now())
		mu.Unlock()
	}
	if all == nil {
		runtime.Gosched()
		return
	}
	g.wait(mu, all)
}

// endWait ends the lane's wait for callers, if it waits: it closes g.all.
func (g *gather) endWait() {
	if g.all != nil {
		close(g.all)
		g.all = nil
	}
}

// wait waits until all is closed, nothing arrives for a twentieth of the last write's time, or 2 ms have passed
// since its answer. It then ends the wait for the callers. mu guards the gather.
func (g *gather) wait(mu sync.Locker, all <-chan struct{}) {
	mu.Lock()
	came, quiet := g.came, g.took/quietPart
	bound := g.answered.Add(min(g.watchEnds.Sub(g.answered), mostGather))
	mu.Unlock()
	timer := time.NewTimer(min(quiet, time.Until(bound)))
	defer timer.Stop()
	for goesOn := true; goesOn; {
		select {
		case <-all:
			return
		case now := <-timer.C:
			mu.Lock()
			if goesOn = g.came > came && now.Before(bound); !goesOn {
				g.endWait()
			}
			came = g.came
			mu.Unlock()
			timer.Reset(min(quiet, bound.Sub(now)))
		}
	}
}
