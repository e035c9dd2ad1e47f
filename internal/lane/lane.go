package lane

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Lane is the one object of a bucket in this process. It remembers the last image of the bucket and
// sends the process's writes to it one at a time. The next write carries the ops that arrive while one
// is in flight, first come first served. A caller that finds the lane at rest does not wait. A Lane is
// safe for concurrent use; Registry.Of makes it.
type Lane struct {
	owner *Registry
	// Entity and Resource name the bucket.
	Entity, Resource string

	// Contact says whether the bucket answers, and Line holds its waiters. Both may be used without the
	// lane.
	Contact Contact
	Line    Line
	// Memo is the limiter's shortcut for calls that charge this bucket alone; it may be nil. The lane
	// does not look at it.
	Memo atomic.Pointer[Memo]
	// Pause is the end of a pause of the bucket. The lane itself ignores it.
	Pause Pause
	// pacer spaces the lane's writes. It is nil while the bucket's partition does not
	// throttle; only the running goroutine sets it.
	pacer atomic.Pointer[pacer]

	// mu guards the fields below, up to those of the running goroutine.
	mu    sync.Mutex
	queue queue
	// sight is the process's knowledge of the bucket. While the lane runs, only the running goroutine
	// replaces the image, so it reads the image without the lock. While the lane rests, others give it
	// images.
	sight sight
	// Ahead prefetches tokens of the bucket; nil if the limiter does not prefetch.
	Ahead *Ahead

	// number is the lane's place among its owner's lanes. It stands before learnt, where it takes no
	// room of its own.
	number uint16

	// learnt belongs to the running goroutine, which needs no lock for it.
	learnt lessons

	// running means that a goroutine, or the goroutine of a caller, works on the queue. mu
	// guards it.
	running bool
}

// Memo holds a limiter's value for a lane.
type Memo struct{ Of any }

// lessons are the conclusions from the answers to a lane's writes for the next one.
type lessons struct {
	// own is the id of this lane's last write, by its op slot.
	own lastOp
	// adjustsOnly means that the last batch, which carried adjusts, was refused. The
	// next write then carries the adjusts without takes, so that takes lose at most one
	// round trip to them.
	adjustsOnly bool
	// halvings is how often the share of one write has been halved, because other processes wrote
	// first.
	halvings int8
	// housekeepingRefused means that a claim made for housekeeping was refused. The next
	// write is then a spend.
	housekeepingRefused bool
}

// Submit queues ops. A goroutine of the lane's own carries them.
func (l *Lane) Submit(ops ...*Op) {
	rested := false
	for _, o := range ops {
		rested = l.enqueue(o) || rested
	}
	if rested {
		go driver{lane: l}.run()
	}
}

// enqueue adds an op to the queue. If it returns true, the lane was at rest, and the caller must run
// it. It calls the waiters that fit next to a waiter's op, so that its write carries them too.
func (l *Lane) enqueue(o *Op) (rested bool) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	if o.Waiter != nil && l.sight.current(o.cfg) {
		l.Line.callAlong(o.Waiter, plan.View{Image: l.sight.image, Config: o.cfg, Now: plan.DecidedAt(l.sight.image, o.cfg, l.owner.SureMS, l.owner.NowMS())})
	}
	if l.Contact.silent() {
		l.queue.endUnwritten(o, silence(ErrTripped))
		return false
	}
	return l.add(o)
}

// add adds an op to the queue. If it returns true, the lane was at rest, and the caller has
// to run it. l.mu must be held.
func (l *Lane) add(o *Op) (rested bool) {
	l.queue.add(o)
	if l.running {
		return false
	}
	l.running = true
	l.owner.Started()
	return true
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
		o.state = opGone
		l.queue.withdraw(l.pacer.Load())
	case opGone:
	default:
		o.abandoned = true
		o.onOutcome = func(r Result) { l.account(o, r) }
	}
	return Result{}, false
}

// GiveUp ends a caller's wait for an op. A queued op is withdrawn; a write in flight continues without
// the caller. If the outcome is known already, it stays.
func (l *Lane) GiveUp(o *Op, err error) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	switch o.state {
	case opQueued:
		l.queue.endUnwritten(o, err)
		l.queue.withdraw(l.pacer.Load())
	case opCarried:
		l.queue.answerPending(o, err)
	default:
	}
}

// Follow accounts for a pending op when its caller goes on without the outcome. The op is not sent
// again for its caller. A grant of a take is given back. Charges of an adjust that was not written are
// counted, and its give-backs wait. Until the outcome is known the amounts are counted as pending; if
// it stays unknown, they are in doubt.
func (l *Lane) Follow(o *Op) {
	l.owner.tally.await(plan.Absolute(o.Amounts))
	ended := func(r Result) {
		l.owner.tally.arrived(plan.Absolute(o.Amounts))
		l.account(o, r)
	}
	l.mu.Lock()
	o.abandoned = true
	r := o.outcome.Load()
	if r == nil {
		o.onOutcome = ended
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	ended(*r)
}

// account books the outcome of an op without a waiting caller. l.mu must not be held.
func (l *Lane) account(o *Op, r Result) {
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
		if !l.owner.GiveBackLater(l, plan.Negated(backs), o.Incarnation, o.cfg) {
			l.owner.Drop(backs)
		}
	}
}

// GiveBack gives back the grant of a take whose caller has left. No caller waits for it, so amounts
// that cannot be written wait until the bucket answers.
func (l *Lane) GiveBack(o *Op, granted Result) {
	if len(granted.Down) > 0 && !l.owner.GiveBackLater(l, Uncounted(granted.Down), granted.Image.Of(), o.cfg) {
		l.owner.Doubt(granted.Down)
	}
	back := o.refundOf(granted)
	if len(back.Amounts) == 0 {
		return
	}
	back.onOutcome = func(r Result) { l.account(back, r) }
	l.Submit(back)
}

// Deliver gives the outcome to an op outside the queue.
func (l *Lane) Deliver(o *Op, r Result) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	l.queue.record(o, r)
}

// Carried returns the ops of the write in flight. Tests of whole limiters use it.
func (l *Lane) Carried() []*Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.carried()
}

// ForgetOwnWrite forgets the id of the last write of a lane at rest, as an evicted lane would. Its next
// give-back is then sent only once. Tests of whole limiters use it.
func (l *Lane) ForgetOwnWrite() {
	l.mu.Lock() // after the running goroutine has rested
	defer l.mu.Unlock()
	l.learnt.own.set(nil)
}

// Turn returns the wait of a newly queued op for its turn; 0 without a wait.
func (l *Lane) Turn() time.Duration {
	if p := l.pacer.Load(); p != nil {
		return p.left()
	}
	return 0
}

// finish ends ops with a result and wakes their callers. If a caller has left, the next write gives
// back its grant.
func (l *Lane) finish(ops []*Op, r Result) {
	if len(ops) == 0 {
		return
	}
	l.mu.Lock()
	defer l.unlockAndNotify()
	for _, o := range ops {
		if o.state >= opDone { // it was answered when the lane tripped
			continue
		}
		if r.Denied && !o.Prefetch {
			l.sight.scarce = true
			if p := l.pacer.Load(); p != nil {
				p.denied()
			}
		}
		if o.Waiter != nil && r.Err == nil && !r.Denied {
			l.Line.served(o.Waiter)
		}
		l.queue.end(o, r)
	}
	l.queue.removeEnded()
}

// requeue puts ops back into the queue, so that the next write may carry them.
func (l *Lane) requeue(ops []*Op) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	for _, o := range ops {
		l.queue.again(o, l.Contact.silent())
	}
	l.queue.removeEnded()
}

// unlockAndNotify releases l.mu and then runs the notices. They take locks of their own,
// so they must not run under l.mu.
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

// Trip marks the bucket as not answering. It answers every queued caller at once, and each then goes on
// by its outage policy. Nobody queues until the bucket answers a background probe; only then is a write
// in flight followed up. After Close there are no probes: then it does nothing and returns false.
func (l *Lane) Trip(cause error) bool {
	l.mu.Lock()
	defer l.unlockAndNotify()
	if l.Contact.silent() || l.owner.isClosing() {
		return l.Contact.silent()
	}
	l.Contact.lose()
	l.queue.answerAll(silence(cause))
	l.owner.trips.Add(1)
	l.owner.Started()
	go l.recover()
	return true
}

// recover probes the bucket until it answers, and lets callers queue again.
func (l *Lane) recover() {
	defer l.owner.Stopped()
	if l.owner.probe(l) {
		l.owner.Log.Info("dynalimit: a bucket answers again", slog.String("entity", l.Entity), slog.String("resource", l.Resource))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner.trips.Add(-1)
	l.Contact.regain()
	if l.Line.Waited() {
		l.Line.wakeHeads()
	}
}

// Seed gives the image of a read made elsewhere to a resting lane without an image.
func (l *Lane) Seed(image *schema.Image, asked Asked) {
	if image != nil {
		l.Pause.learn(image.PausedUntil(), l.owner.NowMS)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running && l.sight.seed(image, asked, l.owner.NowMS(), l.owner.Tick) && l.Line.Waited() {
		l.Line.wakeHeads()
	}
}

// Observe gives a resting lane the image of a transaction, or of a read outside the lane's own work. It
// does nothing if the lane has seen the answer to a later request.
func (l *Lane) Observe(image *schema.Image, asked Asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running && asked.Order >= l.sight.order {
		l.replace(image, asked)
	}
}

// Assume gives a resting lane the image that a committed transaction must have left.
func (l *Lane) Assume(before, after *schema.Image) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running && l.sight.assume(before, after, l.owner.NowMS(), l.owner.Tick) && l.Line.Waited() {
		l.Line.wakeHeads()
	}
}

// Drop makes a resting lane read the bucket before its next write.
func (l *Lane) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running {
		l.sight.drop()
	}
}

// Refilled makes the lane read the bucket before it denies, because this process has filled it by hand,
// and wakes the heads of the line.
func (l *Lane) Refilled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running { // the goroutine reads the sight without the lock
		l.sight.refilled = true
		return
	}
	l.sight.markStale()
	l.sight.order = l.owner.Tick() // a read that was sent before shows the bucket as it was
	if l.Line.Waited() {
		l.Line.wakeHeads()
	}
}

// NoteWriters updates the estimate of other writers from the answer to a write that landed or was
// refused.
func (l *Lane) NoteWriters(w *plan.Write, v ddb.Verdict, image *schema.Image) {
	if v != ddb.Landed && v != ddb.Refused {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sight.learnCrowding(w, v == ddb.Landed, image, l.owner.NowMS())
}

// replace installs an image and wakes the heads of the line, because they may have to
// wait less now. l.mu must be held.
func (l *Lane) replace(image *schema.Image, asked Asked) {
	l.sight.replace(image, asked, l.owner.NowMS(), l.owner.Tick)
	if image != nil && (image.PausedUntil() != 0 || l.Pause.known.Load() != nil) {
		l.Pause.learn(image.PausedUntil(), l.owner.NowMS)
	}
	if l.sight.refilled {
		l.sight.refilled = false
		l.sight.markStale()
	}
	if p := l.pacer.Load(); p != nil {
		p.see(image)
	}
	if l.Line.Waited() {
		l.Line.wakeHeads()
	}
}

// learn installs the image from an answer to one of the lane's own requests. ours are the amounts that
// this write took. Only the running goroutine may call it.
func (l *Lane) learn(image *schema.Image, asked Asked, ours plan.Rows) {
	l.mu.Lock()
	if l.sight.known && plan.Shared(l.sight.image, image, ours) {
		l.sight.shared = l.owner.NowMS()
	}
	foreign := l.sight.known && image.ForeignSince(l.sight.image)
	l.replace(image, Asked{asked.At, l.owner.Tick()}) // a request sent before this answer may not see the write
	l.mu.Unlock()
	if foreign {
		l.owner.noticeForeign(l)
	}
}

// snapshot copies the lane's sight, for a decision outside the lane's own work.
func (l *Lane) snapshot() sight {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sight
}
