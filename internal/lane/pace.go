package lane

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// A lane whose bucket's partition throttles leaves an interval between its writes,
// and decides a throttled write anew after a pause: its pacer says when. Callers
// queue meanwhile and ride together.

// origin is the start of the clock that paces lanes. It lies a second back, so that
// every instant is above 0.
func origin() time.Time { return time.Now().Add(-time.Second) }

// passed is the time in µs since the origin. It never goes back.
func (s *Registry) passed() int64 { return time.Since(s.began).Microseconds() }

// Turn is how long an op that is queued now has to wait for its turn; 0 if it need not.
func (l *Lane) Turn() time.Duration { return l.pacer.Load().left() }

// untilTurn is how long the lane's next write has to wait; 0 if it may start at once.
// Only the running goroutine, which sets the pacer, may call it.
func (l *Lane) untilTurn() time.Duration {
	p := l.pacer.Load()
	if p == nil {
		return 0
	}
	if p.over() {
		l.stopPacing(p)
		return 0
	}
	l.mu.Lock()
	queued := len(l.queue) > 0
	l.mu.Unlock()
	if !queued {
		return 0
	}
	return p.left()
}

// awaitTurn waits until the lane's next write may start. The lane sends nothing
// meanwhile, so the time does not count as silence of the bucket.
func (l *Lane) awaitTurn() {
	for wait := l.untilTurn(); wait > 0; wait = l.untilTurn() {
		l.Contact.pause()
		l.pacer.Load().pause(wait)
	}
	l.Contact.resume()
}

// endPause ends the pause of a lane whose queue is empty. l.mu must be held.
func (l *Lane) endPause() {
	if len(l.queue) == 0 {
		l.pacer.Load().endPause()
	}
}

// throttled starts or lengthens the lane's pacing, because a read, or a write that took
// trip, was throttled.
func (l *Lane) throttled(read bool, trip time.Duration) {
	p := l.pacer.Load()
	first := p == nil
	if first {
		p = newPacer(l.owner.passed)
		p.throttled(read, trip)
		l.pacer.Store(p)
	} else {
		p.throttled(read, trip)
	}
	if t := l.owner.Trace; t != nil && first {
		t.Paced(l.paced(p))
	}
	l.owner.paced.add(l)
}

// stopPacing drops the pacer of a lane that is not paced any more.
func (l *Lane) stopPacing(p *pacer) {
	was := l.paced(p)
	l.pacer.Store(nil)
	l.owner.paced.remove(l)
	if t := l.owner.Trace; t != nil {
		t.Paced(Paced{Entity: l.Entity, Resource: l.Resource, Reads: was.Reads})
	}
}

// paced describes how the lane is paced.
func (l *Lane) paced(p *pacer) Paced {
	shown := p.shown(l.owner.began)
	shown.Entity, shown.Resource = l.Entity, l.Resource
	return shown
}

// noteDenial notes that the lane denied a take. l.mu must be held.
func (l *Lane) noteDenial() {
	l.sight.scarce = true
	l.pacer.Load().denied()
}

// putOff puts the ops of a throttled request back into the queue. It ends those whose
// time for the store is over: their caller's time, or Patience if they have none.
func (l *Lane) putOff(ops []*Op, err error) {
	now := time.Now()
	var ended, again []*Op
	l.mu.Lock()
	for _, o := range ops {
		if o.throttledBy.Store(&err); o.Until.IsZero() {
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

// Cause is why the op waits for its turn: the last throttling error; nil for none.
func (o *Op) Cause() error {
	if err := o.throttledBy.Load(); err != nil {
		return *err
	}
	return nil
}

// throttling reports whether an error means that the store lacked capacity.
func throttling(err error) bool {
	return err != nil && !silent(err) && ddb.Classify(err, context.Background()).Verdict == ddb.Throttled
}
