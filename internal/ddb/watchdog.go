package ddb

import (
	"sync"
	"time"
)

// watchdog checks waits that take too long. All waits share one timer. Most waits end in time, and do not
// touch it.
type watchdog struct {
	mu sync.Mutex
	// waits are in no order.
	waits []*watch
	timer *time.Timer
	// rings is the instant at which the timer rings; zero if it is off.
	rings time.Time
}

// watch is one wait. The lock of its watchdog guards it.
type watch struct {
	of   interface{ abortIfDead(turn int) }
	turn int
	due  time.Time
	// place is 1 + the index in the watchdog's waits; 0 if the wait is not there.
	place int
}

// ringsApart is the least time between two rings, for when many waits take too long.
const ringsApart = 5 * time.Millisecond

// schedule schedules the check of a wait at the time due. turn numbers the wait; the check gets it, so that an
// outdated check can be ignored.
func (d *watchdog) schedule(w *watch, turn int, due time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits = append(d.waits, w)
	w.place, w.due, w.turn = len(d.waits), due, turn
	if d.rings.IsZero() || due.Before(d.rings) {
		d.setTimer(due)
	}
}

// cancelWatch cancels the scheduled check of a wait. It does nothing if none is scheduled.
func (d *watchdog) cancelWatch(w *watch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropWait(w)
}

// dropWait removes a wait if it is scheduled. d.mu must be held.
func (d *watchdog) dropWait(w *watch) {
	if w.place == 0 {
		return
	}
	last := len(d.waits)
	d.waits[w.place-1] = d.waits[last-1]
	d.waits[w.place-1].place = w.place
	d.waits[last-1] = nil
	d.waits, w.place = d.waits[:last-1], 0
}

// setTimer makes the timer call startDueChecks at an instant. d.mu must be held.
func (d *watchdog) setTimer(at time.Time) {
	d.rings = at
	if d.timer == nil {
		d.timer = time.AfterFunc(time.Until(at), d.startDueChecks)
		return
	}
	d.timer.Reset(time.Until(at))
}

// startDueChecks starts the checks of due waits, each in a goroutine, removes them, and sets the timer for the
// earliest of the others. The timer calls it.
func (d *watchdog) startDueChecks() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, next := time.Now(), time.Time{}
	for i := len(d.waits) - 1; i >= 0; i-- {
		switch w := d.waits[i]; {
		case !w.due.After(now):
			d.dropWait(w)
			go w.of.abortIfDead(w.turn)
		case next.IsZero() || w.due.Before(next):
			next = w.due
		}
	}
	if d.rings = next; !next.IsZero() {
		d.setTimer(now.Add(max(next.Sub(now), ringsApart)))
	}
}
