package ledger

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxAbandoned bounds the holds that wait to be given back: in an outage
	// that lasts, the rest end with their leases.
	maxAbandoned = 1000
	// abandonedFor is how long giving one back is tried.
	abandonedFor = time.Minute
	// abandonedPause is the longest wait between two tries.
	abandonedPause = 5 * time.Second
)

// abandonedHold is a hold that no caller has: its caller left, or was told that the
// store did not answer. It may have been written, or may still be written.
type abandonedHold struct {
	ref   *Hold
	until time.Time
}

// abandonedHolds are given back in the background, by one goroutine that runs while
// there are any.
type abandonedHolds struct {
	mu      sync.Mutex
	holds   []abandonedHold
	running bool
}

// abandon gives a hold back in the background. It is called where Close waits
// for the caller.
func (l *Ledger) abandon(ref *Hold) {
	a := &l.abandoned
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.holds) >= maxAbandoned {
		l.Logger.Warn("budget: a hold nobody has ends with its lease: too many wait to be given back", "hold", ref.ID)
		return
	}
	a.holds = append(a.holds, abandonedHold{ref, time.Now().Add(abandonedFor)})
	if !a.running {
		a.running = true
		l.Life.Begin(true)
		go l.giveBackAbandoned()
	}
}

// take returns the holds that wait. If there are none, the goroutine ends.
func (a *abandonedHolds) take() []abandonedHold {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.holds
	a.holds, a.running = nil, len(taken) > 0
	return taken
}

// waitFor reports whether a hold of a scope waits to be given back.
func (a *abandonedHolds) waitFor(scope string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.holds, func(h abandonedHold) bool { return h.ref.Scope == scope })
}

// putBack keeps the holds that could not be given back, until their time is over.
func (a *abandonedHolds) putBack(failed []abandonedHold, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range failed {
		if now.Before(h.until) {
			a.holds = append(a.holds, h)
		}
	}
}

// giveBackAbandoned tries until no hold waits. When the keeper closes, it tries once
// more.
func (l *Ledger) giveBackAbandoned() {
	defer l.Life.Done()
	wait := 250 * time.Millisecond
	for {
		last := l.Life.Closed()
		taken := l.abandoned.take()
		if len(taken) == 0 {
			return
		}
		failed := l.giveBackAll(taken)
		if !last {
			l.abandoned.putBack(failed, time.Now())
		}
		if len(failed) == 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-l.Life.Closing():
		}
		timer.Stop()
		wait = min(2*wait, abandonedPause)
	}
}

// giveBackAll releases holds in their lanes and returns those that the store did not
// take. If there is no hold under an id, the id is barred: a write of the hold that is
// still on its way then finds its place taken.
func (l *Ledger) giveBackAll(holds []abandonedHold) (failed []abandonedHold) {
	ops := make([]*Operation, len(holds))
	l.lanes.mu.Lock()
	for i, h := range holds {
		ops[i] = GiveBack(h.ref)
		ops[i].barsID = true
		l.push(ops[i].lane, ops[i:i+1])
	}
	l.lanes.mu.Unlock()
	for i, o := range ops {
		if err := l.await(l.Life.Context(), o); err != nil {
			l.Logger.Warn("budget: giving back a hold nobody has", "hold", holds[i].ref.ID, "error", err)
			failed = append(failed, holds[i])
		}
	}
	return failed
}
