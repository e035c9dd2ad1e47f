package lane

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
)

const (
	// slowFailure tells a request that was given its time from one that failed
	// fast: one of the first is enough to say that a bucket does not answer.
	slowFailure = 250 * time.Millisecond
	// FirstProbe and lastProbe bound the waits between the probes of one bucket.
	FirstProbe = 500 * time.Millisecond
	lastProbe  = 10 * time.Second
)

// A lane trips when its bucket does not answer: what is queued is answered at
// once, the caller's policy says how, and nobody queues until a probe of the
// bucket is answered. A write that is under way is followed up then.

// Away reports whether the bucket, or the whole table, does not answer.
func (l *Lane) Away() bool { return l.tripped.Load() || l.owner.Table.Open() }

// Trip marks the bucket as not answering: it answers every caller and probes the bucket
// in the background. After Close nothing is probed any more; then it does nothing and
// returns false.
func (l *Lane) Trip(cause error) bool {
	err := silence(cause)
	l.mu.Lock()
	defer l.unlockAndNotify()
	if l.tripped.Load() || l.owner.isClosing() {
		return l.tripped.Load()
	}
	l.tripped.Store(true)
	l.untripped = make(chan struct{})
	for _, o := range l.queue {
		switch o.state {
		case opQueued:
			l.endUnwritten(o, err)
		case opCarried:
			l.answerPending(o, err)
		default:
		}
	}
	l.removeEnded()
	l.owner.trips.Add(1)
	l.owner.Started()
	go l.recover()
	return true
}

// endUnwritten ends a queued op, which was surely not written. l.mu must be held.
func (l *Lane) endUnwritten(o *Op, err error) {
	r := Result{Err: err}
	switch {
	case o.onOutcome != nil: // nobody waits for it
		l.recordOutcome(o, r)
	case o.abandoned:
		o.state = opGone
	default:
		o.state, o.Result = opDone, r
		close(o.Done)
	}
}

// answerPending tells the caller of an op that its write is under way and may land. l.mu
// must be held.
func (l *Lane) answerPending(o *Op, err error) {
	switch {
	case o.onOutcome != nil || o.abandoned:
		return
	case o.notCarried:
		l.endUnwritten(o, err)
		return
	}
	o.state = opPending
	o.Result = Result{Err: err, Unconfirmed: true, Pending: true}
	close(o.Done)
}

// GiveUp ends a caller's wait for an op. A queued op is withdrawn; a write that is under
// way continues without the caller. If the outcome is known already, it stays.
func (l *Lane) GiveUp(o *Op, err error) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	switch o.state {
	case opQueued:
		l.endUnwritten(o, err)
		l.removeEnded()
		l.endPause()
	case opCarried:
		l.answerPending(o, err)
	default:
	}
}

// whenKnown has onOutcome called with the outcome of a write that its caller was told is
// under way. If the outcome is known already, it calls onOutcome at once.
func (l *Lane) whenKnown(o *Op, onOutcome func(Result)) {
	l.mu.Lock()
	if o.outcome == nil {
		o.onOutcome = onOutcome
		l.mu.Unlock()
		return
	}
	r := *o.outcome
	l.mu.Unlock()
	onOutcome(r)
}

// Follow returns a charge that accounts for a write that is under way. Once the write
// has ended, the charge has landed, is in doubt if that is not known, or is owed to the
// bucket. The caller holds its part of the charge meanwhile.
func (l *Lane) Follow(o *Op, amounts []plan.Signed, cfg *plan.Config, now int64) *backlog.Charge {
	c := backlog.UnderWay()
	for _, a := range amounts {
		c.Carry(a.Name, cfg.RateOf(a.Name), a.Amount, now)
	}
	l.whenKnown(o, func(r Result) {
		switch {
		case r.Err == nil && !r.Denied:
			incarnation := r.Image.Of()
			l.owner.owed.refundOrDoubt(l, signedRefunds(c.Landed(incarnation, r.Dropped)), incarnation, cfg)
		case r.Unconfirmed:
			l.owner.tally.doubt(amounts)
			c.Unanswered()
		default:
			l.owner.owed.takeOver(l, c, amounts, cfg)
		}
	})
	return c
}

// Disown has everything given back that a write under way may still grant.
func (l *Lane) Disown(o *Op) {
	l.mu.Lock()
	o.abandoned = true
	l.mu.Unlock()
	l.whenKnown(o, func(r Result) {
		switch {
		case !o.take:
		case r.Unconfirmed:
			l.owner.tally.doubt(o.Amounts)
		case r.Err == nil && !r.Denied:
			l.Submit(l.Returning(o, r))
		}
	})
}

// Returning makes the adjust that gives back what a take was granted after its caller
// left. No caller waits for it, so what cannot be written is owed to the bucket.
func (l *Lane) Returning(o *Op, granted Result) *Op {
	back := o.refundOf(granted)
	back.onOutcome = func(r Result) {
		switch {
		case r.Err == nil:
		case r.Unconfirmed:
			l.owner.tally.doubt(back.Amounts)
		default:
			l.owner.owed.refundOrDoubt(l, plan.Negated(back.Amounts), back.incarnation, back.cfg)
		}
	}
	return back
}

// recordOutcome gives its outcome to an op whose caller does not wait any more. l.mu
// must be held.
func (l *Lane) recordOutcome(o *Op, r Result) {
	onOutcome := o.onOutcome
	r.Dropped = o.dropped
	o.state, o.outcome = opGone, &r
	if onOutcome != nil {
		l.notify(func() { onOutcome(r) })
	}
}

// untrip lets callers queue again.
func (l *Lane) untrip() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tripped.Store(false)
	l.owner.trips.Add(-1)
	close(l.untripped)
}

// recover probes the bucket until it answers: at once, then after waits that double.
// While the whole table does not answer, the table is probed instead.
func (l *Lane) recover() {
	defer l.owner.Stopped()
	defer l.untrip()
	life, table := l.owner.life, l.owner.Table
	for wait := FirstProbe; life.Err() == nil; wait = min(2*wait, lastProbe) {
		if table.Open() {
			select {
			case <-table.Closed():
			case <-life.Done():
			}
			return
		}
		if heard(l.owner.Store.Probe(life, l.Key())) {
			l.owner.Log.Info("dynalimit: a bucket answers again", slog.String("entity", l.Entity), slog.String("resource", l.Resource))
			return
		}
		if !ddb.Sleep(life, wait/2+rand.N(wait/2)) {
			return
		}
	}
}

// awaitUntrip waits until a tripped lane answers again. It returns at once if the lane
// is not tripped, and false if the limiter was closed first.
func (l *Lane) awaitUntrip(ctx context.Context) bool {
	l.mu.Lock()
	tripped, untripped := l.tripped.Load(), l.untripped
	l.mu.Unlock()
	if !tripped {
		return l.owner.life.Err() == nil
	}
	select {
	case <-untripped:
		return l.owner.life.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Hand gives its outcome to an op that is in no queue.
func (l *Lane) Hand(o *Op, r Result) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	l.recordOutcome(o, r)
}

// Hear notes that DynamoDB answered a request about the bucket.
func (l *Lane) Hear() { l.heard.Store(time.Now().UnixNano()) }

// Quiet is how long DynamoDB has answered nothing about the bucket, counted from since
// at the earliest. It is 0 while the lane waits for its turn, because then it asks
// nothing.
func (l *Lane) Quiet(since time.Time) time.Duration {
	if l.pausing.Load() {
		return 0
	}
	if heard := time.Unix(0, l.heard.Load()); heard.After(since) {
		since = heard
	}
	return time.Since(since)
}

// Await waits for the outcome of an adjust, until the table is known not to answer or
// ctx ends. An adjust that is still queued then is never written; the outcome of one in
// flight can be followed.
func (l *Lane) Await(ctx context.Context, o *Op) Result {
	select {
	case <-o.Done:
	case <-ctx.Done():
		l.GiveUp(o, &Failure{Reason: Unconfirmed, Op: "adjust", Err: ctx.Err()})
	case <-l.owner.Table.Opened():
		l.GiveUp(o, silence(ErrTripped))
	}
	<-o.Done
	return o.Result
}
