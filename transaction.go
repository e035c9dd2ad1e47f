package dynalimit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// transaction is a charge of several levels on its way.
type transaction struct {
	items []types.TransactWriteItem
	// charged are the levels that the items charge, by place.
	charged []int
	// token is how DynamoDB recognises a repetition, for ten minutes.
	token string
	// tries and unanswered are how many were made, and went unanswered.
	tries, unanswered int
}

// errMaybeCharged marks a transaction that went unanswered to the end.
var errMaybeCharged = errors.New("it may have been charged")

// commit sends the transaction; done is false when it has to be decided again.
// When ctx ends first, it is followed to its end without the caller: underWay are
// the takes of the levels, of which what becomes of them can be inherited.
func (l *RateLimiter) commit(ctx context.Context, lease *Lease, proposals []lane.Proposal, round int) (done bool, underWay []*lane.Op, err error) {
	t := transaction{token: rand.Text()}
	operation := l.lanes.IDs.Operation()
	for i := range proposals {
		lv := &lease.levels[i]
		if lv.skipped() {
			continue
		}
		if l.lanes.OnSend != nil {
			l.lanes.OnSend(lv.lane, operation, proposals[i].Sums)
		}
		t.items = append(t.items, l.transactItem(lv.lane, &proposals[i].Write, lane.OpID(operation, 0)))
		t.charged = append(t.charged, i)
	}
	asked := l.nowMS()
	l.lanes.Started()
	end := l.beginTogether(&ctx, lease.request)
	a, ended := l.deliverTogether(ctx, &t)
	if ended {
		ops := l.pendingTogether(ctx, lease)
		go func() {
			defer l.lanes.Stopped()
			a, _ := l.deliverTogether(context.WithoutCancel(ctx), &t)
			end(a)
			l.inheritTogether(lease, ops, proposals, &t, a)
		}()
		return false, ops, nil
	}
	defer l.lanes.Stopped()
	end(a)
	if ddb.Classify(a.err, context.Background()).Answered {
		for _, i := range t.charged {
			lease.levels[i].lane.Hear()
		}
	}
	done, err = l.metTogether(lease, proposals, &t, a, asked, round)
	return done, nil, err
}

// metTogether books what came of a transaction, at every level.
func (l *RateLimiter) metTogether(lease *Lease, proposals []lane.Proposal, t *transaction, a joint, asked int64, round int) (done bool, err error) {
	switch a.verdict {
	case landed:
		for _, i := range t.charged {
			lease.levels[i].lane.Meet(&proposals[i].Write, landed, nil)
			lv := &lease.levels[i]
			r := lv.committed(&proposals[i], l.store.decodeBucket)
			lv.grant(r.Image)
			lv.saw(r)
		}
		return true, nil
	case refused:
		for place, image := range a.images {
			i := t.charged[place]
			lease.levels[i].lane.Meet(&proposals[i].Write, refused, image)
			lease.levels[i].lane.Observe(image, asked)
		}
		return false, nil
	case conflicted, throttled, unsent:
		if round+1 < lane.MaxTries {
			return false, nil
		}
	case ambiguous:
		return false, fmt.Errorf("%w (%w)", a.err, errMaybeCharged)
	case failed:
	}
	if a.verdict == conflicted { // answered each time
		return false, contended(lease.request.entity, lease.request.resource)
	}
	return false, a.err
}

// pendingTogether are the levels' takes of a transaction that is under way.
func (l *RateLimiter) pendingTogether(ctx context.Context, lease *Lease) []*lane.Op {
	ops := make([]*lane.Op, len(lease.levels))
	for i := range ops {
		if lv := &lease.levels[i]; lv.skipped() {
			ops[i] = &lane.Op{}
		} else {
			ops[i] = lane.NewUnderWay(context.WithoutCancel(ctx), lv.asked, lv.cfg, &UnavailableError{Op: "acquire", Err: errPatience})
		}
	}
	return ops
}

// inheritTogether tells who follows the takes of a transaction what became of it.
// The lease may be its caller's by now: only what never changes of it is read.
func (l *RateLimiter) inheritTogether(lease *Lease, ops []*lane.Op, proposals []lane.Proposal, t *transaction, a joint) {
	for _, i := range t.charged {
		r := lane.Result{Err: a.err, Unknown: a.verdict == ambiguous}
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

// joint is what came of a transaction.
type joint struct {
	verdict verdict
	images  map[int]*schema.Image // of the conditions that failed, by place
	tries   int
	err     error
}

// beginTogether tells the observer of a transaction; what it returns tells of
// its end.
func (l *RateLimiter) beginTogether(ctx *context.Context, r request) (end func(joint)) {
	o := l.opts.Observer
	if o == nil {
		return func(joint) {}
	}
	began := l.clock()
	*ctx = o.WriteStart(*ctx, WriteStart{EntityID: r.entity, Resource: r.resource, Kind: WriteTransaction, Callers: 1})
	seen := *ctx
	return func(a joint) {
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

// deliverTogether sends a transaction until it is known to have landed or not. An
// unanswered one is sent again byte for byte with its token. It returns early,
// with ended, when ctx ends while that is not known: it can go on under another.
func (l *RateLimiter) deliverTogether(ctx context.Context, t *transaction) (a joint, ended bool) {
	for {
		t.tries++
		a := joint{tries: t.tries}
		a.verdict, a.images, a.err = l.store.transactBuckets(ctx, t.items, t.token, l.lanes.IDs.Slot)
		if a.verdict == ambiguous {
			t.unanswered++
		}
		switch {
		case a.verdict == landed || a.verdict == refused || t.unanswered == 0:
			return a, false
		case a.verdict == failed || t.unanswered > lane.MaxAmbiguous || t.tries >= lane.MaxTries || l.lanes.Table.Open():
			a.verdict = ambiguous // an earlier try may have landed
			return a, false
		}
		if !lane.Backoff.Pause(ctx, t.unanswered) {
			return a, true
		}
	}
}

// transactItem is a plan as part of a transaction.
func (l *RateLimiter) transactItem(at *lane.Lane, p *plan.Write, id []byte) types.TransactWriteItem {
	o := schema.Op{Slot: l.lanes.IDs.Slot, ID: id}
	const allOld = types.ReturnValuesOnConditionCheckFailureAllOld
	if p.Kind == plan.Create {
		p.Create.Keys, p.Create.Entity, p.Create.Resource, p.Create.OpID = l.lanes.Keys, at.Entity, at.Resource, id
		return types.TransactWriteItem{Put: &types.Put{
			TableName: &l.repo.table, Item: p.Create.Item(), ConditionExpression: aws.String(schema.CreateCondition),
			ReturnValuesOnConditionCheckFailure: allOld,
		}}
	}
	var st schema.Statement
	if p.Kind == plan.Spend {
		p.Spend.Op = o
		st = p.Spend.Statement()
	} else {
		p.Claim.Op = o
		st = p.Claim.Statement()
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &l.repo.table, Key: at.Key, UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values, ReturnValuesOnConditionCheckFailure: allOld,
	}}
}
