package lane

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// A lane whose bucket's partition throttles leaves an interval between its writes,
// and decides a throttled write anew after a pause: package plan says when. Callers
// queue meanwhile and ride together.

// pace is what a lane keeps from its first throttling until it is not paced any more.
// The lane's mutex guards it.
type pace struct {
	plan.Pacing
	// pauseEnded ends the pause of a lane whose queue has become empty.
	pauseEnded chan struct{}
}

// origin is the start of the clock that paces lanes. It lies a second back, so that
// every instant is above 0.
func origin() time.Time { return time.Now().Add(-time.Second) }

// passed is the time in µs since the origin. It never goes back.
func (s *Registry) passed() int64 { return time.Since(s.began).Microseconds() }

// untilTurn is how long the lane's next write has to wait; 0 if it may start at once.
// Only the running goroutine, which sets the pace, may call it.
func (l *Lane) untilTurn() time.Duration {
	if l.pace == nil {
		return 0
	}
	l.mu.Lock()
	defer l.unlockAndNotify()
	now := l.owner.passed()
	if l.pace.Over(now) {
		l.stopPacing()
		return 0
	}
	if len(l.queue) == 0 {
		return 0
	}
	return time.Duration(max(0, l.pace.Left(now))) * time.Microsecond
}

// Turn is how long an op that is queued now has to wait for its turn; 0 if it need not.
func (l *Lane) Turn() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pace == nil {
		return 0
	}
	return time.Duration(max(0, l.pace.Left(l.owner.passed()))) * time.Microsecond
}

// awaitTurn waits until the lane's next write may start. The lane sends nothing
// meanwhile, so the time does not count as silence of the bucket.
func (l *Lane) awaitTurn() {
	for wait := l.untilTurn(); wait > 0; wait = l.untilTurn() {
		l.pausing.Store(true)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-l.pace.pauseEnded: // set before the goroutine came here, and kept by it alone
		}
		timer.Stop()
	}
	if l.pausing.Swap(false) {
		l.Hear()
	}
}

// endPause ends the pause of a lane whose queue is empty. l.mu must be held.
func (l *Lane) endPause() {
	if l.pace == nil || len(l.queue) > 0 {
		return
	}
	select {
	case l.pace.pauseEnded <- struct{}{}:
	default:
	}
}

// throttled starts or lengthens the lane's pacing, because a read, or a write that took
// trip, was throttled.
func (l *Lane) throttled(read bool, trip time.Duration) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	first := l.pace == nil
	if first {
		l.pace = &pace{pauseEnded: make(chan struct{}, 1)}
	}
	now := l.owner.passed()
	if read {
		l.pace.Pacing = l.pace.ThrottleRead(now, rand.Float64())
	} else {
		l.pace.Pacing = l.pace.ThrottleWrite(now, trip.Microseconds(), rand.Float64())
	}
	if first {
		l.tellPace(l.pacedAt(now))
	}
	l.owner.paced.add(l)
}

// stopPacing drops the pace of a lane that is not paced any more. l.mu must be held.
func (l *Lane) stopPacing() {
	reads := l.pace.Reads
	l.pace = nil
	l.owner.paced.remove(l)
	l.tellPace(Paced{Entity: l.Entity, Resource: l.Resource, Reads: reads})
}

// tellPace tells the tracer, once l.mu has been released.
func (l *Lane) tellPace(p Paced) {
	if t := l.owner.Trace; t != nil {
		l.notify(func() { t.Paced(p) })
	}
}

// pacedBy changes the pace, if there is one. l.mu must be held.
func (l *Lane) pacedBy(decide func(plan.Pacing) plan.Pacing) {
	if l.pace != nil {
		l.pace.Pacing = decide(l.pace.Pacing)
	}
}

// paceBy does what pacedBy does, for the running goroutine: it sets the pace, so it may
// look at it without the lock.
func (l *Lane) paceBy(decide func(plan.Pacing) plan.Pacing) {
	if l.pace == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pacedBy(decide)
}

// noteDenial notes that the lane denied a take. l.mu must be held.
func (l *Lane) noteDenial() {
	l.sight.scarce = true
	l.pacedBy(func(p plan.Pacing) plan.Pacing { return p.Deny(l.owner.passed()) })
}

// putOff puts the ops of a throttled request back into the queue. It ends those whose
// time for the store is over: their caller's time, or Patience if they have none.
func (l *Lane) putOff(ops []*Op, err error) {
	now := time.Now()
	var ended, again []*Op
	l.mu.Lock()
	for _, o := range ops {
		if o.throttledBy = err; o.Until.IsZero() {
			o.Until = now.Add(l.owner.Patience)
		}
		if now.Before(o.Until) {
			again = append(again, o)
		} else {
			ended = append(ended, o)
		}
	}
	l.mu.Unlock()
	l.finish(ended, Result{Err: err})
	l.requeue(again)
}

// Cause is why an op waits for its turn: the last throttling error; nil for none.
func (l *Lane) Cause(o *Op) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return o.throttledBy
}

// throttling reports whether an error means that the store lacked capacity.
func throttling(err error) bool {
	return err != nil && !silent(err) && ddb.Classify(err, context.Background()).Verdict == ddb.Throttled
}
