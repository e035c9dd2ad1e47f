package lane

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Lane is the one object of a bucket in this process. It remembers the last image of the bucket and
// sends the process's writes to it one at a time. The next write carries the ops that arrive while one
// is in flight, first come first served. A caller that finds the lane at rest does not wait. A Lane is
// safe for concurrent use; Registry.Of makes it.
type Lane struct {
	owner *Registry
	Bucket

	// Memo is the limiter's shortcut for calls that charge this bucket alone; it may be nil. The lane
	// does not look at it.
	Memo atomic.Pointer[Memo]
	shared
	// Memory is the memory of the bucket.
	Memory Memory
}

// site returns the access to the lane's bucket.
func (l *Lane) site() site { return site{&l.owner.sites, &l.Bucket} }

// Key returns the primary key of the bucket's item, as DynamoDB attributes. Callers must not change it.
func (l *Lane) Key() schema.Item { return l.site().Key() }

// WriteWait returns the time until a newly queued op may be written; 0 if the lane is not paced.
func (l *Lane) WriteWait() time.Duration {
	if x := l.extra.Load(); x != nil {
		return x.writeWait()
	}
	return 0
}

// AheadOf returns the prefetch of a lane's bucket; nil if its resource has none.
func AheadOf(l *Lane) *Ahead {
	if x := l.extra.Load(); x != nil {
		return x.ahead
	}
	return nil
}

// Waiters returns the line of batch waiters of the bucket or, without batch, that of interactive waiters; nil
// if no waiter stands in it.
func (l *Lane) Waiters(batch bool) *Line {
	x := l.extra.Load()
	if x == nil {
		return nil
	}
	line := &x.line
	if batch {
		line = x.batches.Load()
	}
	if line == nil || !line.Waited() {
		return nil
	}
	return line
}

// LineOf returns the line of batch waiters of a lane's bucket or, without batch, that of interactive waiters.
// It makes an empty one at its first use.
func LineOf(l *Lane, batch bool) *Line { return l.extra.loadOrMake().lineOf(batch) }

// Memo holds a limiter's value for a lane.
type Memo struct{ Of any }

// Submit queues ops, which a goroutine of the lane's own carries, and returns at once. If the bucket does not
// answer, it ends them as not written.
func (l *Lane) Submit(ops ...*Op) {
	rested := false
	l.mu.Lock()
	for _, o := range ops {
		rested = l.enqueue(o) || rested
	}
	if l.unlockAndNotify(); rested {
		go l.run(nil)
	}
}

// enqueue adds an op to the queue, or ends it as not written if the bucket does not answer. It returns true if
// the lane was at rest: it has marked the lane as running then, and the caller must run it. The lock l.mu
// must be held.
func (l *Lane) enqueue(o *Op) (rested bool) {
	if l.Contact.silent() {
		l.queue.endUnwritten(o, silence(ErrTripped))
		return false
	}
	if x := l.extra.Load(); x != nil {
		x.noteArrival(o, &l.Memory.sight, &l.owner.Access)
	}
	l.queue.ops = append(l.queue.ops, o)
	if l.queue.running {
		return false
	}
	l.queue.running = true
	l.owner.Started()
	return true
}

// Leave is called when a caller's context has ended. It returns the op's result if there is one, also a pending
// one with a known outcome. Otherwise it returns false: it has withdrawn the op, or gives a later grant back.
func (l *Lane) Leave(o *Op) (Result, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch o.state.Load() {
	case opDone, opPending:
		return o.Result, true
	case opQueued:
		o.state.Store(opGone)
		l.queue.removeWithdrawn(l.extra.pacer())
	case opGone:
		return o.Result, o.Result.Pending // it was answered as pending, and its outcome is known since
	default:
		o.abandoned.Store(true)
		o.onOutcome = func(r Result) { l.bookOutcome(o, r) }
	}
	return Result{}, false
}

// GiveUp ends a caller's wait for an op with err. A queued op is withdrawn; a write in flight continues, and
// the caller gets a result marked Pending. It does nothing if the result is known, or the op is pending
// already.
func (l *Lane) GiveUp(o *Op, err error) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	switch o.state.Load() {
	case opQueued:
		l.queue.endUnwritten(o, err)
		l.queue.removeWithdrawn(l.extra.pacer())
	case opCarried:
		l.queue.answerPending(o, err)
	default:
	}
}

// Follow accounts for a pending op when its caller goes on without the outcome. Until that is known its amounts
// count as pending. Then a grant is given back, an adjust that was not written becomes a pending update, and
// amounts with an unknown outcome are in doubt.
func (l *Lane) Follow(o *Op) {
	l.owner.AddPending(o.Amounts)
	ended := func(r Result) {
		l.owner.RemovePending(o.Amounts)
		l.bookOutcome(o, r)
	}
	l.mu.Lock()
	o.abandoned.Store(true)
	r := o.outcome.Load()
	if r == nil {
		o.onOutcome = ended
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	ended(*r)
}

// bookOutcome books the outcome of an op without a waiting caller: it gives back a granted take, and makes a
// failed adjust's amounts pending updates, or drops them after Close. Unconfirmed amounts count as in doubt.
// l.mu must not be held.
func (l *Lane) bookOutcome(o *Op, r Result) {
	charges, backs := plan.Split(o.Amounts)
	switch {
	case r.Unconfirmed:
		l.owner.Doubt(o.Amounts)
	case o.Take:
		if r.Err == nil && !r.Denied {
			l.GiveBack(o, r)
		}
	case r.Err == nil:
	default: // it was not written; after Close nothing is kept
		if !l.owner.Count(l, charges, o.cfg) {
			l.owner.Drop(charges)
		}
		if !l.owner.GiveBackLater(l, plan.Negated(backs), o.Incarnation, o.Model, o.cfg) {
			l.owner.Drop(backs)
		}
	}
}

// GiveBack gives back the grant of an abandoned take; granted is its result. It queues an adjust, and its
// failed amounts become pending updates. Amounts that were only counted, without tokens, become a pending
// update at once, and are in doubt after Close.
func (l *Lane) GiveBack(o *Op, granted Result) {
	if len(granted.Down) > 0 && !l.owner.GiveBackLater(l, Uncounted(granted.Down), granted.Image.IncarnationID(), granted.Model, o.cfg) {
		l.owner.Doubt(granted.Down)
	}
	back := o.refundOf(granted)
	if len(back.Amounts) == 0 {
		return
	}
	back.onOutcome = func(r Result) { l.bookOutcome(back, r) }
	l.Submit(back)
}

// Deliver records the outcome of an op that is not in the queue, marks it as gone, and calls its onOutcome, if
// set.
func (l *Lane) Deliver(o *Op, r Result) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	l.queue.recordOutcome(o, r)
}

// Carried returns the ops of the write in flight. Tests of whole limiters use it.
func (l *Lane) Carried() []*Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.carried()
}

// unlockAndNotify removes the queue's notices of outcomes, releases l.mu and then runs them. They take locks of
// their own, so they must not run under l.mu.
func (l *Lane) unlockAndNotify() {
	notices := l.queue.notices
	l.queue.notices = nil
	l.mu.Unlock()
	if notices == nil { // nearly always
		return
	}
	for _, notify := range *notices {
		notify()
	}
}

// Trip marks the bucket as silent because of cause, answers every queued caller at once, and probes the bucket
// in the background. Nobody queues until it answers. It returns true, also if the bucket was already silent;
// after Close it changes nothing and returns false unless it was.
func (l *Lane) Trip(cause error) bool {
	l.mu.Lock()
	defer l.unlockAndNotify()
	if l.Contact.silent() || l.site().life.Err() != nil {
		return l.Contact.silent()
	}
	l.Contact.lose()
	l.queue.answerAll(silence(cause))
	l.site().trips.Add(1)
	l.owner.Started()
	go l.recover()
	return true
}

// recover probes the bucket until it answers, logs that, and lets callers queue again. It wakes the heads of
// the lines. After Close it logs nothing.
func (l *Lane) recover() {
	defer l.owner.Stopped()
	if l.site().probe(l.extra.longestProbe) {
		l.owner.Log.Info("dynalimit: a bucket answers again", slog.String("entity", l.Entity), slog.String("resource", l.Resource))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.site().trips.Add(-1)
	l.Contact.regain()
	if x := l.extra.Load(); x != nil {
		x.wakeHeads()
	}
}
