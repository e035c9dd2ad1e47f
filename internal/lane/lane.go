package lane

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// Lane is the one object of a bucket in this process. It remembers the last image of the
// bucket and sends the process's writes to it one at a time. Ops that arrive while a
// write is in flight are carried by the next write, first come first served. A caller
// that arrives while the lane rests waits for nobody. A Lane is safe for concurrent use;
// Registry.Of makes it.
type Lane struct {
	owner *Registry
	// Entity and Resource name the bucket.
	Entity, Resource string

	// Contact is whether the bucket answers, and Line who waits for it. Both may be asked
	// without the lane.
	Contact Contact
	Line    Line
	// pacer spaces the lane's writes. It is nil while the bucket's partition does not
	// throttle; only the running goroutine sets it.
	pacer atomic.Pointer[pacer]

	// mu guards the fields below, up to those of the running goroutine. It also guards
	// the states of the ops.
	mu sync.Mutex
	// queue holds every op that has not ended, also those that the write under way
	// carries. room is its memory while it holds one op only.
	queue []*Op
	room  [1]*Op
	// sight is what is known of the bucket. While the lane runs, only the running
	// goroutine replaces the image, so it reads the image without the lock. While the
	// lane rests, others give it images.
	sight sight

	// notices are functions that tell others of outcomes; nil for none. They run after
	// mu has been released.
	notices *[]func()
	// ahead is what this process debits before calls ask for it; nil if the limiter does
	// not prefetch.
	ahead *ahead

	// What follows belongs to the running goroutine, which needs no lock for it.

	// shareHalvings is how often the share that one write takes has been halved, because
	// other processes wrote first.
	shareHalvings int8
	// adjustsOnly means that the last batch, which carried adjusts, was refused. The
	// next write then carries the adjusts without takes, so that takes lose at most one
	// round trip to them.
	adjustsOnly bool
	// housekeepingRefused means that a claim made for housekeeping was refused. The next
	// write is then a spend.
	housekeepingRefused bool
	// batchSent means that a request was sent for the current batch.
	batchSent bool

	// Small fields stand together, because a process remembers many lanes.

	// lastOp is the id of this lane's last write in its op slot. It belongs to the running
	// goroutine.
	lastOp lastOp
	// number is the lane's place among its owner's lanes.
	number uint16
	// running means that a goroutine, or the goroutine of a caller, works on the queue.
	// refilled means that the bucket was filled by hand meanwhile, so that what the
	// goroutine learns may be older. mu guards both.
	running, refilled bool
}

// notify adds a notice of an outcome, which runs once mu has been released. mu must be
// held.
func (l *Lane) notify(tell func()) {
	if l.notices == nil {
		l.notices = new([]func())
	}
	*l.notices = append(*l.notices, tell)
}

// Enqueue adds an op to the queue. If it returns true, the lane was at rest and the
// caller has to call Run or Drive.
func (l *Lane) Enqueue(o *Op) bool {
	l.mu.Lock()
	defer l.unlockAndNotify()
	if o.Waiter != nil {
		l.callAlong(o)
	}
	if l.Contact.silent.Load() {
		l.endUnwritten(o, silence(ErrTripped))
		return false
	}
	l.queue = append(l.queue, o)
	if l.running {
		return false
	}
	l.running = true
	l.owner.Started()
	return true
}

// callAlong calls the waiters that fit beside a waiter's op, so that its write carries them
// too. l.mu must be held.
func (l *Lane) callAlong(o *Op) {
	if l.sight.current(o.cfg) {
		l.Line.callAlong(o.Waiter, plan.NewView(l.sight.image, o.cfg, plan.Current, l.owner.NowMS()))
	}
}

// startIfResting has a goroutine work on the queue of a lane that rests. l.mu must be
// held.
func (l *Lane) startIfResting() {
	if !l.running {
		l.running = true
		l.owner.Started()
		go l.Run()
	}
}

// Submit queues an op and starts the lane if it rests.
func (l *Lane) Submit(o *Op) {
	if l.Enqueue(o) {
		go l.Run()
	}
}

// driver is the goroutine that runs a lane: one of the lane's own, or the goroutine of a
// caller who found the lane at rest. A caller's goroutine saves a switch, and carries
// the op of that caller alone.
type driver struct {
	ctx context.Context // nil for a goroutine of the lane's own
	op  *Op
}

// of is the context under which the driver works on a batch.
func (dr driver) of(b *batch) context.Context {
	if dr.ctx != nil {
		return dr.ctx
	}
	return context.WithoutCancel(b.first().ctx)
}

// ended reports whether the driver is a caller whose context has ended, so that it has
// to return now.
func (dr driver) ended() bool { return dr.ctx != nil && dr.ctx.Err() != nil }

// Drive runs the lane on the goroutine of o's caller. When o is done, or the caller's
// context ends, another goroutine carries on with the rest.
func (l *Lane) Drive(ctx context.Context, o *Op) {
	if ctx.Done() == nil { // a delivery leaves a driver by its context's being one that can end
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
	}
	dr := driver{ctx: ctx, op: o}
	for {
		if l.untilTurn() > 0 { // its caller waits beside it
			go l.Run()
			return
		}
		b, ok := l.next()
		if !ok {
			l.owner.Stopped()
			return
		}
		if len(b.adjusts)+len(b.takes) > 1 { // others must not depend on this context
			go func() {
				l.guard(func() { l.carry(driver{}, b) })
				l.Run()
			}()
			return
		}
		handed := false
		if l.guard(func() { handed = l.carry(dr, b) }); handed {
			return
		}
		if l.hasOutcome(o) {
			break
		}
	}
	l.mu.Lock()
	more := len(l.queue) > 0
	l.running = more
	l.mu.Unlock()
	if more {
		go l.Run()
	} else {
		l.owner.Stopped()
	}
}

// hasOutcome reports whether the op's caller can be answered.
func (l *Lane) hasOutcome(o *Op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return o.state >= opPending
}

// handOver starts a goroutine that runs the lane in place of a driver who has to return.
// It first finishes the current batch with unfinished, then carries on as usual.
func (l *Lane) handOver(unfinished func()) {
	go func() {
		l.guard(unfinished)
		l.Run()
	}()
}

// Leave is called when a caller's context has ended. It returns the op's result if there
// is one. Otherwise it withdraws the op, or makes sure that a later grant is given back.
func (l *Lane) Leave(o *Op) (Result, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch o.state {
	case opDone, opPending:
		return o.Result, true
	case opQueued:
		l.queue = slices.DeleteFunc(l.queue, func(q *Op) bool { return q == o })
		o.state = opGone
		l.endPause()
	case opGone:
	default:
		o.abandoned = true
	}
	return Result{}, false
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

// Run carries batches until nothing is queued.
func (l *Lane) Run() {
	defer l.owner.Stopped()
	growStack(0)
	for {
		l.awaitTurn()
		b, ok := l.next()
		if !ok {
			return
		}
		l.guard(func() { l.carry(driver{}, b) })
		if len(b.takes) > 1 { // callers who come back at once ride in the next write, not in the one after
			runtime.Gosched()
		}
	}
}

// finish ends ops with a result and wakes their callers. If a caller has left, the next
// write gives back what its take was granted.
func (l *Lane) finish(ops []*Op, r Result) {
	if len(ops) == 0 {
		return
	}
	l.mu.Lock()
	defer l.unlockAndNotify()
	for _, o := range ops {
		if o.state < opDone { // else it was answered when the lane tripped
			l.end(o, r)
		}
	}
	l.removeEnded()
}

// end gives its result to an op that a write carried. l.mu must be held.
func (l *Lane) end(o *Op, r Result) {
	if r.Denied && !o.ahead {
		l.noteDenial()
	}
	granted := r.Err == nil && !r.Denied
	if o.Waiter != nil && granted {
		l.Line.served(o.Waiter)
	}
	switch {
	case o.state == opPending || o.onOutcome != nil:
		l.recordOutcome(o, r)
	case !o.abandoned:
		o.state, o.Result = opDone, r
		o.Result.Dropped = o.dropped
		close(o.Done)
	default:
		o.state = opGone // its caller must not take the result for its own
		switch {
		case !o.take:
		case granted:
			l.queue = append(l.queue, l.Returning(o, r))
		case r.Unconfirmed:
			l.owner.Doubt(o.Amounts)
		}
	}
}

// requeue puts ops back into the queue, so that the next write may carry them.
func (l *Lane) requeue(ops []*Op) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	for _, o := range ops {
		o.notCarried = false
		switch {
		case o.state >= opDone: // answered when the lane tripped
		case o.state == opPending: // nothing landed for it, and its caller has gone on
			l.recordOutcome(o, Result{Err: silence(ErrTripped)})
		case o.abandoned && o.take: // nothing landed for it, nobody waits
			l.recordOutcome(o, Result{Denied: true})
		case l.Contact.silent.Load():
			l.endUnwritten(o, silence(ErrTripped))
		default:
			o.state = opQueued
		}
	}
	l.removeEnded()
}

// removeEnded removes the ops that have ended from the queue. l.mu must be held.
func (l *Lane) removeEnded() {
	l.queue = slices.DeleteFunc(l.queue, func(o *Op) bool { return o.state >= opDone })
}

// unlockAndNotify releases l.mu and then runs the notices. They take locks of their own,
// so they must not run under l.mu.
func (l *Lane) unlockAndNotify() {
	var notices []func()
	if l.notices != nil {
		notices, l.notices = *l.notices, nil
	}
	l.mu.Unlock()
	for _, notify := range notices {
		notify()
	}
}
