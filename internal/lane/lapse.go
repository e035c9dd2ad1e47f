package lane

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// What was debited ahead and not used in time lapses: it is never given back to the
// bucket, only taken off its counter. A write that is made anyway carries that; if
// none comes within a horizon, one is made.

// lapseLater starts the clock of what is held, or has lapsed; l.mu must be held.
func (l *Lane) lapseLater() {
	a := l.ahead
	if a.timer != nil || !a.stock.Holds() || l.owner.lapsing.Load() {
		return
	}
	l.owner.stocked(l, true)
	a.timer = time.AfterFunc(a.horizon, l.lapse)
}

// lapse lets lapse what is too old, and has it taken off the counter.
func (l *Lane) lapse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, now := l.ahead, l.owner.elapsed()
	a.timer = nil
	a.stock.Expire(now)
	if !a.stock.Holds() || l.owner.lapsing.Load() {
		a.lapsedAt = 0
		l.owner.stocked(l, false)
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

// writeLapsed has what lapsed taken off the counter by a write of its own; l.mu must be
// held.
func (l *Lane) writeLapsed() {
	if l.tripped.Load() {
		return
	}
	o := l.lapsedOp()
	if o == nil {
		return
	}
	l.queue = append(l.queue, o)
	if !l.running {
		l.running = true
		l.owner.Started()
		go l.Run()
	}
}

// lapsedOp is the adjust that takes off the counter what lapsed, nil for nothing;
// l.mu must be held.
func (l *Lane) lapsedOp() *Op {
	a := l.ahead
	lapsed := a.stock.TakeLapsed()
	a.lapsedAt = 0
	if len(lapsed) == 0 || l.sight.known && (l.sight.image == nil || string(l.sight.image.Of()) != string(a.incarnation)) {
		return nil // with its bucket the counter is gone
	}
	o := NewAdjust(context.Background(), nil, a.incarnation, a.cfg)
	o.late, o.lapses = plan.Negated(lapsed), true
	o.onOutcome = func(r Result) {
		if r.Err == nil || r.Unconfirmed { // perhaps taken off: what cannot be known stays consumed
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		a.stock.Lapse(lapsed)
		l.lapseLater()
	}
	return o
}

// lapseAll ends what is debited ahead: the limiter is closed.
func (l *Lane) lapseAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.ahead
	a.stock.LapseAll()
	l.writeLapsed()
}
