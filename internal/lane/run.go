package lane

import (
	"context"
	"runtime"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// driver works on a lane's queue: a goroutine of the lane's own, or the goroutine of a caller that
// found the lane at rest. A caller's goroutine saves a switch, and carries the op of that caller alone.
// Only the driver of a lane sends its writes and replaces its image.
type driver struct {
	lane *Lane
	// ctx and op are the caller's; nil for a goroutine of the lane's own.
	ctx context.Context
	op  *Op
}

// ended reports whether the driver is a caller with an ended context, so that it must return now.
func (dr driver) ended() bool { return dr.ctx != nil && dr.ctx.Err() != nil }

// Ask queues an op. A lane at rest runs on this goroutine until the op is done, or ctx ends;
// then another goroutine carries on with the rest.
func (l *Lane) Ask(ctx context.Context, o *Op) {
	if !l.enqueue(o) {
		return
	}
	dr := driver{lane: l, ctx: ctx, op: o}
	if dr.ctx.Done() == nil { // a delivery leaves a driver by its context's being one that can end
		var end context.CancelFunc
		dr.ctx, end = context.WithCancel(dr.ctx)
		defer end()
	}
	for !dr.answered() {
		b, wait, ok := dr.take()
		if wait > 0 { // the caller waits for its op, not for the lane
			go driver{lane: l}.run()
			return
		}
		if !ok {
			l.owner.Stopped()
			return
		}
		if b.size() > 1 { // others must not depend on this context
			own, carried := driver{lane: l}, b // a copy: b stays on the stack
			t := newTurn(own, b)
			go own.goOn(t, func() {
				t.carry()
				own.gather(&carried)
			})
			return
		}
		if newTurn(dr, b).carry() {
			return
		}
	}
	l.mu.Lock()
	more := len(l.queue.ops) > 0
	l.running = more
	l.mu.Unlock()
	if more {
		go driver{lane: l}.run()
	} else {
		l.owner.Stopped()
	}
}

// answered reports whether the driver's caller can be answered.
func (dr driver) answered() bool {
	dr.lane.mu.Lock()
	defer dr.lane.mu.Unlock()
	return dr.op.state >= opPending
}

// run carries batches until nothing is queued.
func (dr driver) run() {
	growStack(0)
	for {
		b, ok := dr.next()
		if !ok {
			dr.lane.owner.Stopped()
			return
		}
		newTurn(dr, b).carry()
		dr.gather(&b)
	}
}

// gather lets the callers of a write of several takes come back, so that they ride in the next write
// and not in the one after. It waits if they come back at once, and else lets other goroutines run.
func (dr driver) gather(b *batch) {
	if len(b.takes) < 2 {
		return
	}
	l := dr.lane
	var all <-chan struct{}
	if l.pacer.Load() == nil {
		l.mu.Lock()
		all = l.queue.gathers(time.Now())
		l.mu.Unlock()
	}
	if all == nil {
		runtime.Gosched()
		return
	}
	l.queue.gather.wait(&l.mu, all)
}

// goOn finishes a turn in place of a driver that must return, then runs the lane.
func (dr driver) goOn(t *turn, unfinished func()) {
	guard.Call(unfinished, t.ended)
	driver{lane: dr.lane}.run()
}

// next takes the batch of the next write out of the queue when that may start. The lane sends
// nothing until then, so the time does not count as silence of the bucket. If nothing is queued,
// the lane rests, and next is false.
func (dr driver) next() (batch, bool) {
	contact := &dr.lane.Contact
	defer contact.resume()
	for {
		b, wait, ok := dr.take()
		if wait == 0 {
			return b, ok
		}
		contact.pause()
		dr.lane.pacer.Load().pause(wait)
	}
}

// take is next without the wait. wait is the time until the next write may start, 0 if the batch was
// taken. It checks the queue and the pace, and acts on them, under one lock: an op that came in between
// would be written before the lane's turn.
func (dr driver) take() (b batch, wait time.Duration, ok bool) {
	l := dr.lane
	p := l.pacer.Load()
	if p != nil && p.over() {
		dr.endPacing(p)
		p = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p != nil && len(l.queue.ops) > 0 {
		if wait = p.left(); wait > 0 {
			return b, wait, false
		}
	}
	if b, ok = l.queue.next(l.learnt.adjustsOnly); !ok {
		l.running = false
		return b, 0, false
	}
	l.learnt.adjustsOnly = false
	if l.Ahead != nil {
		l.queue.ops = append(l.queue.ops, l.Ahead.rideIn(&b)...)
	}
	b.markCarried()
	return b, 0, true
}

// endPacing ends the lane's pacing.
func (dr driver) endPacing(p *pacer) {
	dr.lane.pacer.Store(nil)
	dr.lane.owner.notPaced(dr.lane, p)
}

// throttled starts or lengthens the lane's pacing, because a read, or a write that took
// trip, was throttled.
func (dr driver) throttled(read bool, trip time.Duration, cause error) {
	l := dr.lane
	p := l.pacer.Load()
	first := p == nil
	if first {
		p = newPacer(l.owner.passed)
	}
	p.throttled(read, trip, cause)
	l.pacer.Store(p)
	l.owner.isPaced(l, p, first)
}

// putOff puts the ops of a throttled request back into the queue. It ends those whose time for the
// store is over: their caller's time, or Patience if they have none.
func (dr driver) putOff(ops []*Op, err error) {
	l, now := dr.lane, time.Now()
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

// denyAll denies takes that do not fit a view.
func (dr driver) denyAll(unfit []excluded, v plan.View) {
	for _, x := range unfit {
		dr.lane.finish([]*Op{x.op}, denial(v, x))
	}
}

// growStack makes the stack of a new goroutine large enough for an SDK call at once. The
// runtime would otherwise grow it in steps and copy deep frames each time, which costs
// more than everything else here.
//
//go:noinline
func growStack(i int) byte {
	var room [20 << 10]byte
	return room[i&1]
}
