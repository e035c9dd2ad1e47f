package dynalimit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The buckets of an entity and its parents, charged by one transaction:
// CascadeTransaction.

// takeTogether charges all levels in one transaction. A denial by a recent image writes
// nothing. A denial that has to bring a newer configuration goes the parallel way.
func (l *RateLimiter) takeTogether(caller context.Context, lease *Lease, policy UnavailablePolicy, at position, p patience) error {
	ctx, cancel := context.WithDeadline(caller, p.bound())
	defer cancel()
	var tries rounds
	for tries.refused < lane.MaxRefusals {
		proposals, err := l.proposeAll(ctx, lease, at, tries.refused)
		if err != nil {
			return l.concludeFailed(ctx, caller, lease, policy, &p, err)
		}
		switch denied, adopts := denies(proposals); {
		case adopts:
			return l.takeAtOnce(caller, lease, policy, at, p)
		case denied:
			return lease.denyProposed(proposals)
		}
		a, underWay, err := l.commit(ctx, lease, proposals, tries.refused)
		switch {
		case underWay != nil:
			return l.concludePending(caller, lease, policy, &p, underWay)
		case err != nil:
			return l.concludeFailed(ctx, caller, lease, policy, &p, err)
		case a.verdict == landed:
			return nil
		}
		if !tries.pause(ctx, a.verdict) {
			return l.concludeUnpaused(ctx, caller, lease, policy, &p, a)
		}
	}
	r := lease.request
	return l.concludeFailed(ctx, caller, lease, policy, &p, contended(r.entity, r.resource))
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

// concludeFailed ends a call whose transaction failed. If ctx has ended, the time for
// the store is over, but an error about what may have been charged, or about bad input,
// is returned all the same.
func (l *RateLimiter) concludeFailed(ctx, caller context.Context, lease *Lease, policy UnavailablePolicy, p *patience, err error) error {
	if ctx.Err() != nil && !errors.Is(err, errUnconfirmed) && !isValidation(err) {
		err = l.outOfTime(lease, p)
	}
	return l.concludeTogether(caller, lease, l.failAll(lease, err), policy)
}

// concludeUnpaused ends a call whose time ended before its transaction could be decided
// again. What throttled it is told.
func (l *RateLimiter) concludeUnpaused(ctx, caller context.Context, lease *Lease, policy UnavailablePolicy, p *patience, a transactionAnswer) error {
	if a.verdict == throttled {
		return l.concludeTogether(caller, lease, l.failAll(lease, a.err), policy)
	}
	return l.concludeFailed(ctx, caller, lease, policy, p, ctx.Err())
}

// concludePending ends a call whose transaction is still under way.
func (l *RateLimiter) concludePending(caller context.Context, lease *Lease, policy UnavailablePolicy, p *patience, underWay []*lane.Op) error {
	for _, o := range underWay {
		if o.Result.Pending {
			o.Result.Err = l.outOfTime(lease, p)
		}
	}
	return l.concludeTogether(caller, lease, underWay, policy)
}

// concludeTogether turns the failure of a transaction into an error, or into a lease if
// the policy says so. If the caller's context has ended, it returns that error.
func (l *RateLimiter) concludeTogether(ctx context.Context, lease *Lease, ops []*lane.Op, policy UnavailablePolicy) error {
	if ctx.Err() == nil {
		return l.conclude(ctx, lease, ops, policy)
	}
	for i, o := range ops {
		if o.Result.Pending {
			lease.levels[i].lane.Disown(o)
		}
	}
	return ctx.Err()
}

// outOfTime is the error of a call whose time for the store is over.
func (l *RateLimiter) outOfTime(lease *Lease, p *patience) error {
	for i := range lease.levels {
		if lv := &lease.levels[i]; !lv.skipped() && lv.lane.Quiet(p.began) < leastSilence {
			return &UnavailableError{Op: "acquire", Err: errOutOfTime}
		}
	}
	return l.unanswered(errOutOfTime)
}

// failAll makes a result with the same error for every level.
func (l *RateLimiter) failAll(lease *Lease, err error) []*lane.Op {
	ops := make([]*lane.Op, len(lease.levels))
	for i := range ops {
		ops[i] = &lane.Op{Result: lane.Result{Err: err, Unconfirmed: errors.Is(err, errUnconfirmed)}}
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
		if *p, err = lv.lane.Propose(ctx, lv.cfg, lv.asked, at.rank(), round, certain); err != nil {
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

// errUnconfirmed marks a transaction that went unanswered to the end.
var errUnconfirmed = errors.New("it may have been charged")

// commit sends the transaction, which landed or has to be decided again. If ctx ends
// first, a goroutine follows the transaction to its end; underWay then are the takes of
// the levels, whose outcomes can be followed.
func (l *RateLimiter) commit(ctx context.Context, lease *Lease, proposals []lane.Proposal, round int) (a transactionAnswer, underWay []*lane.Op, err error) {
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
	asked := l.nowMS()
	l.lanes.Started()
	end := l.beginTogether(&ctx, lease.request)
	a, ctxEnded := l.deliverTogether(ctx, &t)
	if ctxEnded {
		ops := l.pendingTogether(ctx, lease)
		go func() {
			defer l.lanes.Stopped()
			a, _ := l.deliverTogether(context.WithoutCancel(ctx), &t)
			end(a)
			l.passOutcomes(lease, ops, proposals, &t, a)
		}()
		return a, ops, nil
	}
	defer l.lanes.Stopped()
	end(a)
	if ddb.Classify(a.err, context.Background()).Answered {
		for _, i := range t.charged {
			lease.levels[i].lane.Hear()
		}
	}
	return a, nil, l.bookTransaction(lease, proposals, &t, a, asked, round)
}

// bookTransaction books the answer to a transaction at every level. The error is of one
// that is not to be decided again.
func (l *RateLimiter) bookTransaction(lease *Lease, proposals []lane.Proposal, t *transaction, a transactionAnswer, asked int64, round int) error {
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
	case unconfirmed:
		return fmt.Errorf("%w (%w)", a.err, errUnconfirmed)
	case failed:
	}
	if a.verdict == conflicted { // answered each time
		return contended(lease.request.entity, lease.request.resource)
	}
	return a.err
}

// pendingTogether makes the takes of the levels of a transaction that is under way.
func (l *RateLimiter) pendingTogether(ctx context.Context, lease *Lease) []*lane.Op {
	ops := make([]*lane.Op, len(lease.levels))
	for i := range ops {
		if lv := &lease.levels[i]; lv.skipped() {
			ops[i] = &lane.Op{}
		} else {
			ops[i] = lane.NewUnderWay(context.WithoutCancel(ctx), lv.asked, lv.cfg, &UnavailableError{Op: "acquire", Err: errOutOfTime})
		}
	}
	return ops
}

// passOutcomes gives the takes of a transaction their outcomes. The lease may belong to
// its caller by now, so only fields that never change are read.
func (l *RateLimiter) passOutcomes(lease *Lease, ops []*lane.Op, proposals []lane.Proposal, t *transaction, a transactionAnswer) {
	for _, i := range t.charged {
		r := lane.Result{Err: a.err, Unconfirmed: a.verdict == unconfirmed}
		lv := &lease.levels[i]
		switch {
		case a.verdict == landed:
			r = lv.committed(&proposals[i], l.store.decodeBucket)
		case r.Err == nil: // refused
			r.Err = contended(lv.lane.Entity, lv.lane.Resource)
		}
		lv.lane.Hand(ops[i], r)
	}
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

// deliverTogether sends a transaction until it is known whether it landed. A transaction
// that got no answer is sent again byte for byte, with the same token. It returns early,
// with ctxEnded, if ctx ends before that is known: the delivery can continue under
// another context.
func (l *RateLimiter) deliverTogether(ctx context.Context, t *transaction) (a transactionAnswer, ctxEnded bool) {
	for {
		t.tries++
		a := transactionAnswer{tries: t.tries}
		a.verdict, a.images, a.err = l.store.transactBuckets(ctx, &t.bucketTransaction, l.lanes.IDs.Slot)
		if a.verdict == unconfirmed {
			t.unanswered++
		}
		switch {
		case a.verdict == landed || a.verdict == refused || t.unanswered == 0:
			return a, false
		case a.verdict == failed || t.unanswered > lane.MaxUnconfirmed || t.tries >= lane.MaxTries || l.lanes.Table.Open():
			a.verdict = unconfirmed // an earlier try may have landed
			return a, false
		}
		if !lane.Backoff.Pause(ctx, t.unanswered) {
			return a, true
		}
	}
}
