package lane

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// Lane is the one object of a bucket in this process. It remembers the last
// image, and carries the process's writes to the bucket one at a time: what
// arrives while one is in flight rides in the next, first come first served. A
// caller that is alone waits for nobody.
type Lane struct {
	owner *Registry
	// Entity and Resource name the bucket.
	Entity, Resource string

	// mu guards what follows, down to what belongs to the running goroutine, and
	// the states of the ops and waiters.
	mu sync.Mutex
	// queue holds the ops that have not ended, those of the write under way too.
	// The room is for that of a lone caller.
	queue []*Op
	room  [1]*Op
	// sight is what is known of the bucket. While the lane runs, only the running
	// goroutine replaces the image, and so reads it without the lock; a resting
	// lane is given images by others.
	sight sight

	// pace is how the lane is paced, nil while its partition does not throttle; only
	// the running goroutine sets it.
	pace *pace

	// line holds the waiters, in order of arrival; spread is how far behind their exact
	// time they try.
	line   []*Waiter
	spread plan.Spread

	// untripped, made by a trip, is closed when the bucket answers again.
	untripped chan struct{}
	// heard is when a request about the bucket was last answered, in Unix
	// nanoseconds.
	heard atomic.Int64
	// notices are to be told of outcomes once mu is released, nil for none.
	notices *[]func()
	// local are the limits as this process admits on its own, nil for none yet.
	local *[]localLimit
	// owing is what the bucket is owed, nil for nothing.
	owing atomic.Pointer[owing]
	// ahead is what is debited ahead of calls, nil where nothing is.
	ahead *ahead

	// What follows belongs to the running goroutine, which needs no lock for it.

	// lastOp is this lane's own last write in its slot, nil if unknown.
	lastOp []byte
	// shareHalvings is how often the share that one write takes has been halved, for
	// other processes were faster.
	shareHalvings int8
	// adjustsOnly says that the last batch was refused: the next write carries its
	// adjusts without takes, so that those cost them one round trip at most.
	adjustsOnly bool
	// housekeepingRefused says that a housekeeping claim was refused: spend instead.
	housekeepingRefused bool
	// batchSent says that something was sent for the batch.
	batchSent bool

	// What is small stands together: a process remembers many lanes.

	// number is its place among the owner's lanes, for its key's.
	number uint16
	// running means that a goroutine, or a caller, carries the queue; mu guards it.
	running bool
	// tripped says that the bucket does not answer.
	tripped atomic.Bool
	// pausing says that the lane waits for its turn; only the running goroutine sets
	// it.
	pausing atomic.Bool
}

// notify has somebody told of an outcome once mu, which must be held, is released.
func (l *Lane) notify(tell func()) {
	if l.notices == nil {
		l.notices = new([]func())
	}
	*l.notices = append(*l.notices, tell)
}

// Enqueue queues an op; true says that the lane rested, and that the caller has
// to run or drive it.
func (l *Lane) Enqueue(o *Op) bool {
	l.mu.Lock()
	defer l.unlockAndNotify()
	if l.tripped.Load() {
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

// wake lets a lane that rests write what its bucket is owed.
func (l *Lane) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.owing.Load(); w == nil || l.running || l.tripped.Load() || !w.pending() {
		return
	}
	l.running = true
	l.owner.Started()
	go l.Run()
}

// Submit queues an op and starts the lane if it rests.
func (l *Lane) Submit(o *Op) {
	if l.Enqueue(o) {
		go l.Run()
	}
}

// driver is who runs a lane: a goroutine of its own, or, sparing the switch, the
// goroutine of a caller that found it at rest, while it carries that caller's op
// alone.
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

// ended reports whether the driver has to answer its caller now.
func (dr driver) ended() bool { return dr.ctx != nil && dr.ctx.Err() != nil }

// Drive runs the lane on the goroutine of o's caller. What is left when o is
// done, or the caller's context ends, goes on without it.
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

func (l *Lane) hasOutcome(o *Op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return o.state >= opPending
}

// handOver lets the lane go on without its driver, whose caller has to be
// answered: first with what rest is left of the batch, then as ever.
func (l *Lane) handOver(unfinished func()) {
	go func() {
		l.guard(unfinished)
		l.Run()
	}()
}

// Leave withdraws a caller whose context ended. It returns the result if there
// is one already, else makes sure that what is granted is given back.
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

// growStack makes a new goroutine's stack fit an SDK call at once: growing it
// step by step copies deep frames, which costs more than all else here.
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

// finish ends ops with a result and wakes their callers. Grants to callers who
// have gone are given back by the next write.
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

// end gives a carried op its result; l.mu must be held.
func (l *Lane) end(o *Op, r Result) {
	if r.Denied && !o.ahead {
		l.noteDenial()
	}
	granted := r.Err == nil && !r.Denied
	if o.Waiter != nil && granted {
		o.Waiter.served = true
		l.spread = l.spread.Won()
		l.findHeads()
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
		if o.take && granted {
			l.queue = append(l.queue, l.Returning(o, r))
		}
	}
}

// requeue leaves ops for the next write.
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
		case l.tripped.Load():
			l.endUnwritten(o, silence(ErrTripped))
		default:
			o.state = opQueued
		}
	}
	l.removeEnded()
}

// removeEnded forgets the ops that have ended; l.mu must be held.
func (l *Lane) removeEnded() {
	l.queue = slices.DeleteFunc(l.queue, func(o *Op) bool { return o.state >= opDone })
}

// unlockAndNotify releases l.mu and tells heirs of outcomes: they take locks of
// their own.
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
