package dynalimit

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
	// firstProbe and lastProbe bound the waits between the probes of one bucket.
	firstProbe = 500 * time.Millisecond
	lastProbe  = 10 * time.Second
)

// A lane trips when its bucket does not answer: what is queued is answered at
// once, the caller's policy says how, and nobody queues until a probe of the
// bucket is answered. A write that is under way is followed up then.

// away reports whether the bucket, or its table, does not answer.
func (l *lane) away() bool { return l.tripped.Load() || l.owner.table.Open() }

// trip answers everybody and probes the bucket in the background; after Close it
// does not, for nothing is probed any more, and reports false.
func (l *lane) trip(cause error) bool {
	err := silence(cause)
	l.mu.Lock()
	defer l.unlockAndTell()
	if l.tripped.Load() || l.owner.isClosing() {
		return l.tripped.Load()
	}
	l.tripped.Store(true)
	l.untripped = make(chan struct{})
	for _, o := range l.queue {
		switch o.state {
		case opQueued:
			l.turnOut(o, err)
		case opCarried:
			l.answerEarly(o, err)
		default:
		}
	}
	l.sweep()
	l.owner.trips.Add(1)
	l.owner.started()
	go l.recover()
	return true
}

// turnOut ends a queued op, which was surely not written; l.mu must be held.
func (l *lane) turnOut(o *op, err error) {
	r := result{err: err}
	switch {
	case o.heir != nil: // nobody waits for it
		l.inherit(o, r)
	case o.abandoned:
		o.state = opGone
	default:
		o.state, o.result = opDone, r
		close(o.done)
	}
}

// answerEarly tells the caller of an op that its write is under way, and may
// land; l.mu must be held.
func (l *lane) answerEarly(o *op, err error) {
	switch {
	case o.heir != nil || o.abandoned:
		return
	case o.unburdened:
		l.turnOut(o, err)
		return
	}
	o.state = opPending
	o.result = result{err: err, unknown: true, pending: true}
	close(o.done)
}

// giveUp ends a caller's wait for an op: it is withdrawn, or its write goes on
// without the caller. An outcome that is there already stays.
func (l *lane) giveUp(o *op, err error) {
	l.mu.Lock()
	defer l.unlockAndTell()
	switch o.state {
	case opQueued:
		l.turnOut(o, err)
		l.sweep()
	case opCarried:
		l.answerEarly(o, err)
	default:
	}
}

// bequeath lets heir learn what becomes of a write that its caller was told is
// under way.
func (l *lane) bequeath(o *op, heir func(result)) {
	l.mu.Lock()
	if o.final == nil {
		o.heir = heir
		l.mu.Unlock()
		return
	}
	r := *o.final
	l.mu.Unlock()
	heir(r)
}

// follow keeps an account of the charges of a write that is under way: landed, in
// doubt if nobody knows, else owed to the bucket. The caller holds its part of the
// charge that it returns once the write has ended.
func (l *lane) follow(o *op, amounts []plan.Signed, cfg *plan.Config, now int64) *backlog.Charge {
	c := backlog.UnderWay()
	for _, a := range amounts {
		c.Carry(a.Name, cfg.RateOf(a.Name), a.Amount, now)
	}
	l.bequeath(o, func(r result) {
		switch {
		case r.err == nil && !r.denied:
			where := r.image.Of()
			l.owner.owed.returns(l, refunds(c.Landed(where, r.dropped)), where, cfg)
		case r.unknown:
			l.owner.tally.doubt(amounts)
			c.Unanswered()
		default:
			l.owner.owed.takeOver(l, c, amounts, cfg)
		}
	})
	return c
}

// disown has what a write may yet be granted given back.
func (l *lane) disown(o *op) {
	l.mu.Lock()
	o.abandoned = true
	l.mu.Unlock()
	l.bequeath(o, func(r result) {
		switch {
		case !o.take:
		case r.unknown:
			l.owner.tally.doubt(o.amounts)
		case r.err == nil && !r.denied:
			l.submit(l.returning(o, r))
		}
	})
}

// returning is the adjust that gives back what a take was granted whose caller has
// gone: nobody waits for it, so that what cannot be written is owed.
func (l *lane) returning(o *op, granted result) *op {
	back := o.reversed(granted)
	back.heir = func(r result) {
		switch {
		case r.err == nil:
		case r.unknown:
			l.owner.tally.doubt(back.amounts)
		default:
			l.owner.owed.returns(l, plan.Negated(back.amounts), back.incarnation, back.cfg)
		}
	}
	return back
}

// inherit gives an op whose caller has gone on its outcome; l.mu must be held.
func (l *lane) inherit(o *op, r result) {
	heir := o.heir
	r.dropped = o.dropped
	o.state, o.final = opGone, &r
	if heir != nil {
		l.heirs = append(l.heirs, func() { heir(r) })
	}
}

// untrip lets callers queue again.
func (l *lane) untrip() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tripped.Store(false)
	l.owner.trips.Add(-1)
	close(l.untripped)
}

// recover probes the bucket until it answers: at once, then after waits that
// double. While the whole table does not answer, that is probed instead.
func (l *lane) recover() {
	defer l.owner.stopped()
	defer l.untrip()
	life, table := l.owner.life, l.owner.table
	for wait := firstProbe; life.Err() == nil; wait = min(2*wait, lastProbe) {
		if table.Open() {
			select {
			case <-table.Closed():
			case <-life.Done():
			}
			return
		}
		if heard(l.owner.store.Probe(life, l.key)) {
			l.owner.log.Info("dynalimit: a bucket answers again", slog.String("entity", l.entity), slog.String("resource", l.resource))
			return
		}
		if !ddb.Sleep(life, wait/2+rand.N(wait/2)) {
			return
		}
	}
}

// rideOut waits until a tripped lane answers again; false if the limiter ended
// first. It does not wait for one that is not tripped any more.
func (l *lane) rideOut(ctx context.Context) bool {
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

// hand gives an op that no queue holds its outcome.
func (l *lane) hand(o *op, r result) {
	l.mu.Lock()
	defer l.unlockAndTell()
	l.inherit(o, r)
}

// quiet is how long nothing was heard of the bucket, since an instant at most.
func (l *lane) quiet(since time.Time) time.Duration {
	if heard := time.Unix(0, l.heard.Load()); heard.After(since) {
		since = heard
	}
	return time.Since(since)
}

// await waits for what comes of an adjust: at most until its table is known not
// to answer, or ctx ends. One that is still queued is then never written, and the
// outcome of one in flight can be inherited.
func (l *lane) await(ctx context.Context, o *op) result {
	select {
	case <-o.done:
	case <-ctx.Done():
		l.giveUp(o, &failure{reason: failedUnconfirmed, op: "adjust", err: ctx.Err()})
	case <-l.owner.table.Opened():
		l.giveUp(o, silence(errTripped))
	}
	<-o.done
	return o.result
}
