package lane

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
)

const (
	// SlowFailure tells a request that was given its time from one that failed
	// fast: one of the first is enough to say that a bucket does not answer.
	SlowFailure = 250 * time.Millisecond
	// FirstProbe and lastProbe bound the waits between the probes of one bucket.
	FirstProbe = 500 * time.Millisecond
	lastProbe  = 10 * time.Second
)

// A lane trips when its bucket does not answer: what is queued is answered at
// once, the caller's policy says how, and nobody queues until a probe of the
// bucket is answered. A write that is under way is followed up then.

// Trip marks the bucket as not answering: it answers every caller and probes the bucket
// in the background. After Close nothing is probed any more; then it does nothing and
// returns false.
func (l *Lane) Trip(cause error) bool {
	err := silence(cause)
	l.mu.Lock()
	defer l.unlockAndNotify()
	if l.Contact.silent.Load() || l.owner.isClosing() {
		return l.Contact.silent.Load()
	}
	l.Contact.lose()
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

// Disown has everything given back that a write under way may still grant to a take. It is
// not sent again for the take.
func (l *Lane) Disown(o *Op) {
	l.whenKnown(o, func(r Result) {
		if r.Err == nil && !r.Denied {
			l.Submit(l.Returning(o, r))
		}
	})
}

// Follow accounts for an adjust whose write is under way, and not sent again. If it turns
// out not to be written, what it charges is counted, and what it gives back waits.
func (l *Lane) Follow(o *Op) {
	l.whenKnown(o, func(r Result) {
		if r.Err == nil {
			return
		}
		charges, backs := plan.Split(o.Amounts)
		if !l.Count(charges, o.cfg) || !l.GiveBackLater(plan.Negated(backs), o.incarnation, o.cfg) {
			l.owner.tally.doubt(o.Amounts)
		}
	})
}

// whenKnown calls what follows from the outcome of an op whose caller was told that it is
// under way. Until then its amounts wait; if nobody learns the outcome, they are in doubt.
func (l *Lane) whenKnown(o *Op, follows func(Result)) {
	l.owner.tally.await(plan.Absolute(o.Amounts))
	ended := func(r Result) {
		l.owner.tally.arrived(plan.Absolute(o.Amounts))
		if r.Unconfirmed {
			l.owner.tally.doubt(o.Amounts)
			return
		}
		follows(r)
	}
	l.mu.Lock()
	o.abandoned = true
	if o.outcome == nil {
		o.onOutcome = ended
		l.mu.Unlock()
		return
	}
	r := *o.outcome
	l.mu.Unlock()
	ended(r)
}

// Outcome is what became of an op whose caller was told that it is under way; false if that
// is not known yet.
func (l *Lane) Outcome(o *Op) (Result, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.outcome == nil {
		return Result{}, false
	}
	return *o.outcome, true
}

// Returning makes the adjust that gives back what a take was granted after its caller
// left. No caller waits for it, so what cannot be written waits until the bucket answers.
func (l *Lane) Returning(o *Op, granted Result) *Op {
	back := o.refundOf(granted)
	back.onOutcome = func(r Result) {
		switch {
		case r.Err == nil:
		case r.Unconfirmed || !l.GiveBackLater(plan.Negated(back.Amounts), back.incarnation, back.cfg):
			l.owner.tally.doubt(back.Amounts)
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
	l.owner.trips.Add(-1)
	l.Contact.regain()
	l.Line.wakeHeads()
}

// recover probes the bucket until it answers: at once, then after waits that double. While
// the whole table does not answer, the table is probed instead; that it answers again says
// nothing of the bucket.
func (l *Lane) recover() {
	defer l.owner.Stopped()
	defer l.untrip()
	life, table := l.owner.life, l.owner.Table
	for wait := FirstProbe; life.Err() == nil; wait = min(2*wait, lastProbe) {
		if table.Open() {
			select {
			case <-table.Closed():
			case <-life.Done():
				return
			}
			wait = FirstProbe
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

// Hand gives its outcome to an op that is in no queue.
func (l *Lane) Hand(o *Op, r Result) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	l.recordOutcome(o, r)
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
