package dynalimit

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The buckets of an entity and its parents, charged by one transaction:
// CascadeTransaction.
//
// A transaction that is not answered does not say which of its buckets is silent. So each
// of them is asked by itself next, side by side, and one that does not answer then opens.
// While one is silent, the others are charged side by side too.

// mayBeSilent reports whether some level is admitted without its bucket, or its bucket may
// be the one that does not answer.
func (lease *Lease) mayBeSilent() bool {
	return slices.ContainsFunc(lease.levels, func(lv level) bool { return lv.unasked || lv.lane.Contact.Suspected() && !lv.skipped() })
}

// takeTogether charges all levels in one transaction. A denial by a recent image writes
// nothing. A denial that has to bring a newer configuration goes the parallel way.
func (l *RateLimiter) takeTogether(caller context.Context, lease *Lease, policy UnavailablePolicy, at position, p patience) error {
	ctx, cancel := context.WithDeadline(caller, p.bound())
	defer cancel()
	var tries rounds
	for tries.refused < lane.MaxRefusals {
		proposals, err := l.proposeAll(ctx, lease, at, tries.refused)
		if err != nil {
			return l.concludeTogether(ctx, caller, lease, policy, at, p, err)
		}
		switch denied, adopts := denies(proposals); {
		case adopts:
			return l.takeAtOnce(caller, lease, policy, at, p)
		case denied:
			return lease.denyProposed(proposals)
		}
		a, err := l.commit(ctx, lease, proposals, tries.refused)
		switch {
		case err != nil:
			return l.concludeTogether(ctx, caller, lease, policy, at, p, err)
		case a.verdict == landed:
			return nil
		}
		if !tries.pause(ctx, a.verdict) {
			err := ctx.Err()
			if a.verdict == throttled { // what throttled it is told
				err = a.err
			}
			return l.concludeTogether(ctx, caller, lease, policy, at, p, err)
		}
	}
	r := lease.request
	return l.concludeTogether(ctx, caller, lease, policy, at, p, contended(r.entity, r.resource))
}

// rounds counts how often a transaction was decided again. Throttling counts apart: it
// is no failure as long as there is time.
type rounds struct{ refused, throttled int }

// throttledBackoff is the wait before a throttled transaction is decided again.
var throttledBackoff = ddb.Backoff{First: 10 * time.Millisecond, Most: time.Second}

// pause waits before a transaction with such an answer is decided again. It is false if
// ctx ends first.
func (r *rounds) pause(ctx context.Context, v verdict) bool {
	if v == throttled {
		r.throttled++
		return throttledBackoff.Pause(ctx, r.throttled-1)
	}
	r.refused++
	return lane.Backoff.Pause(ctx, r.refused-1)
}

// proposeAll decides the write of every level. If a level denies, all of them are
// decided again from recent images, so that none passes by an image too old to deny
// from.
func (l *RateLimiter) proposeAll(ctx context.Context, lease *Lease, at position, round int) ([]lane.Proposal, error) {
	proposals, err := l.propose(ctx, lease, at, round, false)
	if denied, _ := denies(proposals); err == nil && denied {
		return l.propose(ctx, lease, at, round, true)
	}
	return proposals, err
}

// denies reports whether some level denies, and whether such a level has a newer
// configuration to bring.
func denies(proposals []lane.Proposal) (denied, adopts bool) {
	for i := range proposals {
		p := &proposals[i]
		denied = denied || p.Waits
		adopts = adopts || p.Waits && p.View.Adopt && p.View.Image != nil
	}
	return denied, adopts
}

// denyProposed is the denial by levels whose take would have to wait.
func (lease *Lease) denyProposed(proposals []lane.Proposal) error {
	for i := range proposals {
		if v := proposals[i].View; v.Config != nil {
			lease.levels[i].noteAnswer(lane.Result{Image: v.Image, Config: v.Config, Now: v.Now, Before: plan.Precedence{Left: proposals[i].Left}})
		}
	}
	return lease.denial()
}

// concludeTogether ends a call whose transaction failed. If nothing was answered, its levels
// are asked one by one in the time that is left; the transaction may have charged them, and
// what it did is given back.
func (l *RateLimiter) concludeTogether(ctx, caller context.Context, lease *Lease, policy UnavailablePolicy, at position, p patience, err error) error {
	if caller.Err() != nil {
		return caller.Err()
	}
	if ctx.Err() != nil && !isValidation(err) && !silent(err) && !ddb.Classify(err, context.Background()).Answered {
		err = l.outOfTime(lease, &p, err)
	}
	if !leftToPolicy(err) || !time.Now().Before(p.until) {
		return l.conclude(caller, lease, l.failAll(lease, err), Block)
	}
	if err := l.admitSilentLevels(lease, policy); err != nil {
		return err
	}
	p.began = time.Now() // of what each of them is given
	return l.takeAtOnce(caller, lease, policy, at, p)
}

// outOfTime is the error of a call whose time for the store is over; err is what it met
// last.
func (l *RateLimiter) outOfTime(lease *Lease, p *patience, err error) error {
	for i := range lease.levels {
		if lv := &lease.levels[i]; !lv.skipped() && lv.lane.Contact.Quiet(p.began) < leastSilence {
			return &UnavailableError{Op: "acquire", Err: outOfTimeFor(err)}
		}
	}
	return l.unanswered(errOutOfTime)
}

// failAll makes a result with the same error for every level.
func (l *RateLimiter) failAll(lease *Lease, err error) []*lane.Op {
	ops := make([]*lane.Op, len(lease.levels))
	for i := range ops {
		ops[i] = &lane.Op{Result: lane.Result{Err: err}}
	}
	return ops
}

// propose decides the write of every level, for a call that was refused round times.
// certain lets no level pass by an image too old to deny from.
func (l *RateLimiter) propose(ctx context.Context, lease *Lease, at position, round int, certain bool) ([]lane.Proposal, error) {
	proposals := make([]lane.Proposal, len(lease.levels))
	for i := range lease.levels {
		lv, p := &lease.levels[i], &proposals[i]
		if lv.skipped() {
			continue
		}
		var err error
		beside := lane.BesideOf(lv.lane)
		if *p, err = beside.Propose(ctx, lv.cfg, lv.asked, at.rank(), round, certain); err != nil {
			return nil, l.userError(lv.lane, err)
		}
	}
	return proposals, nil
}

// committed is what a transaction granted to a level. DynamoDB returns no image for a
// transaction, so the image is computed, and the lane reads the bucket before it denies.
func (lv *level) committed(p *lane.Proposal, decode func(schema.Item, int) (*schema.Image, error)) lane.Result {
	image := p.View.Image
	if image == nil {
		image, _ = decode(p.Write.Create.Item(), 0) // what was made
	} else {
		image = p.View.After(lv.asked, &p.Write)
	}
	if p.Write.Kind == plan.Claim {
		lv.lane.Drop()
	} else {
		lv.lane.Assume(p.View.Image, image)
	}
	return lane.Result{Image: image, Config: p.View.Config, Now: p.View.Now}
}

// transaction is one charge of several levels on its way.
type transaction struct {
	bucketTransaction
	// charged are the indexes of the levels that its items charge, in the items' order.
	charged []int
	// tries counts the requests, and unanswered those that got no answer.
	tries, unanswered int
}

// commit sends the transaction, which landed or has to be decided again. The error is of one
// that is not to be decided again: if it is silent, the transaction may still land, which is
// followed.
func (l *RateLimiter) commit(ctx context.Context, lease *Lease, proposals []lane.Proposal, round int) (transactionAnswer, error) {
	t := transaction{bucketTransaction: bucketTransaction{token: rand.Text()}}
	operation := l.lanes.IDs.Operation()
	for i := range proposals {
		lv := &lease.levels[i]
		if lv.skipped() {
			continue
		}
		if l.lanes.OnSend != nil {
			l.lanes.OnSend(lv.lane, operation, proposals[i].Sums)
		}
		l.store.join(&t.bucketTransaction, lv.lane, &proposals[i].Write, schema.Op{Slot: l.lanes.IDs.Slot, ID: lane.OpID(operation, 0)})
		t.charged = append(t.charged, i)
	}
	asked, began := l.lanes.Ask(), time.Now()
	l.lanes.Started()
	defer l.lanes.Stopped()
	end := l.beginTogether(&ctx, lease.request)
	a := l.deliverTogether(ctx, &t)
	end(a)
	if a.verdict == unconfirmed {
		l.followLost(ctx, lease, proposals, &t, began)
		return a, l.unanswered(a.err)
	}
	if ddb.Classify(a.err, context.Background()).Answered {
		for _, i := range t.charged {
			lease.levels[i].lane.Contact.Hear()
		}
	}
	return a, l.bookTransaction(lease, proposals, &t, a, asked, round)
}

const (
	// lostAskedAfter is how long, at first, a transaction that got no answer is left alone
	// before it is asked for, and lostForgotten when it is not asked for any more:
	// DynamoDB knows its token for ten minutes.
	lostAskedAfter = 500 * time.Millisecond
	lostForgotten  = 9 * time.Minute
)

// followLost has everything given back that a transaction without an answer took, which was
// sent at began. Unless its caller left soon, its buckets are suspects: each is asked by
// itself next. Once they answer, it is asked once, by its token, whether it landed.
func (l *RateLimiter) followLost(ctx context.Context, lease *Lease, proposals []lane.Proposal, t *transaction, began time.Time) {
	ops := make(map[int]*lane.Op, len(t.charged))
	asked := ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(began) >= leastSilence
	ctx = context.WithoutCancel(ctx)
	for _, i := range t.charged {
		lv := &lease.levels[i]
		if asked {
			lv.lane.Contact.Suspect()
		}
		ops[i] = lane.NewUnderWay(ctx, lv.asked, proposals[i].View.Config)
		lv.lane.Follow(ops[i])
		for _, a := range lv.asked {
			lv.holding(a.Name).Vain += a.Amount
		}
	}
	l.lanes.Started()
	go func() {
		defer l.lanes.Stopped()
		a := transactionAnswer{verdict: unconfirmed}
		if l.awaitAnswers(lease, t) {
			a.verdict, _, a.err = l.store.transactBuckets(ctx, &t.bucketTransaction, l.lanes.IDs.Slot)
		}
		for _, i := range t.charged {
			lv := &lease.levels[i] // only what never changes of it is read: it is its caller's by now
			r := lane.Result{Denied: true, Unconfirmed: a.verdict == unconfirmed || a.verdict == throttled || a.verdict == unsent}
			if a.verdict == landed {
				r = lv.committed(&proposals[i], l.store.decodeBucket)
			}
			lv.lane.Hand(ops[i], r)
		}
	}()
}

// awaitAnswers waits until every bucket of a transaction answers. It returns false if that
// takes too long, or the limiter is closed first.
func (l *RateLimiter) awaitAnswers(lease *Lease, t *transaction) bool {
	wait, until := lostAskedAfter, time.Now().Add(lostForgotten)
	probe := false // callers ask the suspects first
	silent := func(i int) bool {
		at := lease.levels[i].lane
		return at.Contact.Away() || at.Contact.Suspected() && !(probe && l.lanes.Answers(at))
	}
	for ; time.Now().Before(until); wait = min(2*wait, 10*time.Second) {
		if !slices.ContainsFunc(t.charged, silent) {
			return true
		}
		if !l.lanes.Sleep(wait) {
			return false
		}
		probe = true
	}
	return false
}

// bookTransaction books the answer to a transaction at every level. The error is of one
// that is not to be decided again.
func (l *RateLimiter) bookTransaction(lease *Lease, proposals []lane.Proposal, t *transaction, a transactionAnswer, asked lane.Asked, round int) error {
	switch a.verdict {
	case landed:
		for _, i := range t.charged {
			lease.levels[i].lane.Meet(&proposals[i].Write, landed, nil)
			lv := &lease.levels[i]
			r := lv.committed(&proposals[i], l.store.decodeBucket)
			lv.grant(r.Image)
			lv.noteAnswer(r)
		}
		return nil
	case refused:
		for index, image := range a.images {
			i := t.charged[index]
			lease.levels[i].lane.Meet(&proposals[i].Write, refused, image)
			lease.levels[i].lane.Observe(image, asked)
		}
		return nil
	case throttled:
		return nil
	case conflicted, unsent:
		if round+1 < lane.MaxTries {
			return nil
		}
	case failed:
	}
	if a.verdict == conflicted { // answered each time
		return contended(lease.request.entity, lease.request.resource)
	}
	return a.err
}

// transactionAnswer is what a transaction came to.
type transactionAnswer struct {
	verdict verdict
	images  map[int]*schema.Image // of the conditions that failed, by place
	tries   int
	err     error
}

// beginTogether tells the observer that a transaction begins. The function it returns
// tells of its end.
func (l *RateLimiter) beginTogether(ctx *context.Context, r request) (end func(transactionAnswer)) {
	o := l.opts.Observer
	if o == nil {
		return func(transactionAnswer) {}
	}
	began := l.clock()
	*ctx = orGiven(o.WriteStart(*ctx, WriteStart{EntityID: r.entity, Resource: r.resource, Kind: WriteTransaction, Callers: 1}), *ctx)
	seen := *ctx
	return func(a transactionAnswer) {
		e := WriteEnd{
			EntityID: r.entity, Resource: r.resource, Kind: WriteTransaction, Callers: 1, Outcome: a.verdict.String(),
			Tries: a.tries, Duration: l.clock().Sub(began),
		}
		if a.verdict != refused {
			e.Err = a.err
		}
		o.WriteEnd(seen, e)
	}
}

// maxLost is after how many lost answers the levels of a transaction are asked one by one.
const maxLost = 2

// deliverTogether sends a transaction until it is known whether it landed. One whose answer
// was lost is sent again byte for byte, with the same token, unless the silence lasts: then,
// or if ctx ends, it is unconfirmed.
func (l *RateLimiter) deliverTogether(ctx context.Context, t *transaction) transactionAnswer {
	for {
		t.tries++
		a, began := transactionAnswer{tries: t.tries}, time.Now()
		a.verdict, a.images, a.err = l.store.transactBuckets(ctx, &t.bucketTransaction, l.lanes.IDs.Slot)
		if a.verdict == unconfirmed {
			t.unanswered++
		}
		switch {
		case a.verdict == landed || a.verdict == refused || t.unanswered == 0:
			return a
		case a.verdict == failed || t.unanswered >= maxLost || t.tries >= lane.MaxTries || l.lanes.Table.Open(),
			time.Since(began) >= lane.SlowFailure, !lane.Backoff.Pause(ctx, t.unanswered):
			a.verdict = unconfirmed // an earlier try may have landed
			return a
		}
	}
}
