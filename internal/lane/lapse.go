package lane

import (
	"bytes"
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// What was debited ahead and not used in time lapses: it is never given back to the
// bucket, only taken off its counter. A write that is made anyway carries that; if
// none comes within a horizon, one is made.

// lapseLater starts the timer that lets held tokens lapse. l.mu must be held.
func (l *Lane) lapseLater() {
	a := l.ahead
	if a.timer != nil || !a.stock.Holds() {
		return
	}
	if !l.owner.stocks(l) {
		l.lapseFinally()
		return
	}
	a.timer = time.AfterFunc(a.horizon, l.lapse)
}

// lapse lets tokens lapse that are too old, and has them taken off the counter.
func (l *Lane) lapse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, now := l.ahead, l.owner.elapsed()
	if a.timer == nil {
		return // the limiter was closed meanwhile
	}
	a.timer = nil
	a.stock.Expire(now)
	if !a.stock.Holds() {
		a.lapsedAt = 0
		l.owner.destocks(l)
		return
	}
	if a.lapsedAt == 0 && a.stock.HasLapsed() {
		a.lapsedAt = now
	} else if a.lapsedAt > 0 && now-a.lapsedAt >= a.horizon.Milliseconds() {
		l.writeLapsed()
	}
	wait := a.horizon
	if at, held := a.stock.Ends(); held {
		wait = min(wait, time.Duration(at-now+1)*time.Millisecond)
	}
	a.timer = time.AfterFunc(max(wait, time.Millisecond), l.lapse)
}

// writeLapsed queues a write that takes lapsed tokens off the counter. l.mu must be
// held.
func (l *Lane) writeLapsed() {
	if l.Contact.Away() {
		return
	}
	if o := l.lapsedOp(); o != nil {
		l.queue = append(l.queue, o)
		l.startIfResting()
	}
}

// lapsedOp makes the adjust that takes lapsed tokens off the counter; nil if nothing has
// lapsed. l.mu must be held.
func (l *Lane) lapsedOp() *Op {
	a := l.ahead
	lapsed := a.stock.TakeLapsed()
	a.lapsedAt = 0
	if len(lapsed) == 0 || l.sight.known && (l.sight.image == nil || !bytes.Equal(l.sight.image.Of(), a.incarnation)) {
		return nil // with its bucket the counter is gone
	}
	o := NewAdjust(context.Background(), nil, a.incarnation, a.cfg)
	o.late, o.lapses = plan.Negated(lapsed), true
	o.onOutcome = func(r Result) { l.tookOff(o, lapsed, r) }
	return o
}

// tookOff keeps for later what could not be taken off the counter. What perhaps was
// taken off stays consumed, and so does everything that a closed limiter could not take
// off.
func (l *Lane) tookOff(o *Op, lapsed []plan.Signed, r Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch a := l.ahead; {
	case r.Err == nil:
	case r.Unconfirmed || l.owner.lapsing.Load():
		l.owner.tally.doubt(lapsed)
	case bytes.Equal(o.incarnation, a.incarnation):
		a.stock.Lapse(lapsed)
		l.lapseLater()
	}
}

// lapseAll lets everything lapse that was debited ahead. It is called when the limiter
// is closed.
func (l *Lane) lapseAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lapseFinally()
}

// lapseFinally lets everything lapse because the limiter is closed. l.mu must be held.
func (l *Lane) lapseFinally() {
	a := l.ahead
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	a.stock.LapseAll()
	if l.writeLapsed(); a.stock.HasLapsed() {
		l.owner.tally.doubt(a.stock.TakeLapsed())
	}
}
