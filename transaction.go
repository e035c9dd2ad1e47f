package dynalimit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
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
func (l *RateLimiter) commit(ctx context.Context, lease *Lease, proposals []proposal, round int) (done bool, underWay []*op, err error) {
	t := transaction{token: rand.Text()}
	operation := l.lanes.ids.operation()
	for i := range proposals {
		lv := &lease.levels[i]
		if lv.skipped() {
			continue
		}
		if l.lanes.onSend != nil {
			l.lanes.onSend(lv.lane, operation, proposals[i].sums)
		}
		t.items = append(t.items, l.transactItem(lv.lane, &proposals[i].plan, opID(operation, 0)))
		t.charged = append(t.charged, i)
	}
	asked := l.nowMS()
	l.lanes.started()
	end := l.beginTogether(&ctx, lease.request)
	a, ended := l.deliverTogether(ctx, &t)
	if ended {
		ops := l.pendingTogether(ctx, lease)
		go func() {
			defer l.lanes.stopped()
			a, _ := l.deliverTogether(context.WithoutCancel(ctx), &t)
			end(a)
			l.inheritTogether(lease, ops, proposals, &t, a)
		}()
		return false, ops, nil
	}
	defer l.lanes.stopped()
	end(a)
	if ddb.Classify(a.err, context.Background()).Answered {
		for _, i := range t.charged {
			lease.levels[i].lane.heard.Store(time.Now().UnixNano())
		}
	}
	done, err = l.metTogether(lease, proposals, &t, a, asked, round)
	return done, nil, err
}

// metTogether books what came of a transaction, at every level.
func (l *RateLimiter) metTogether(lease *Lease, proposals []proposal, t *transaction, a joint, asked int64, round int) (done bool, err error) {
	switch a.verdict {
	case landed:
		for _, i := range t.charged {
			lease.levels[i].lane.meet(&proposals[i].plan, landed, nil)
			lv := &lease.levels[i]
			r := lv.committed(&proposals[i], l.store.decodeBucket)
			lv.grant(r.image)
			lv.saw(r)
		}
		return true, nil
	case refused:
		for place, image := range a.images {
			i := t.charged[place]
			lease.levels[i].lane.meet(&proposals[i].plan, refused, image)
			lease.levels[i].lane.observe(image, asked)
		}
		return false, nil
	case conflicted, throttled, unsent:
		if round+1 < maxTries {
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
func (l *RateLimiter) pendingTogether(ctx context.Context, lease *Lease) []*op {
	ops := make([]*op, len(lease.levels))
	for i := range ops {
		if lv := &lease.levels[i]; lv.skipped() {
			ops[i] = &op{}
		} else {
			ops[i] = newTake(context.WithoutCancel(ctx), lv.asked, lv.cfg)
			ops[i].state = opPending
			ops[i].result = result{err: &UnavailableError{Op: "acquire", Err: errPatience}, unknown: true, pending: true}
		}
	}
	return ops
}

// inheritTogether tells who follows the takes of a transaction what became of it.
// The lease may be its caller's by now: only what never changes of it is read.
func (l *RateLimiter) inheritTogether(lease *Lease, ops []*op, proposals []proposal, t *transaction, a joint) {
	for _, i := range t.charged {
		r := result{err: a.err, unknown: a.verdict == ambiguous}
		lv := &lease.levels[i]
		switch {
		case a.verdict == landed:
			r = lv.committed(&proposals[i], l.store.decodeBucket)
		case r.err == nil: // refused
			r.err = contended(lv.lane.entity, lv.lane.resource)
		}
		lv.lane.hand(ops[i], r)
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
		a.verdict, a.images, a.err = l.store.transactBuckets(ctx, t.items, t.token, l.lanes.ids.slot)
		if a.verdict == ambiguous {
			t.unanswered++
		}
		switch {
		case a.verdict == landed || a.verdict == refused || t.unanswered == 0:
			return a, false
		case a.verdict == failed || t.unanswered > maxAmbiguous || t.tries >= maxTries || l.lanes.table.Open():
			a.verdict = ambiguous // an earlier try may have landed
			return a, false
		}
		if !writeBackoff.Pause(ctx, t.unanswered) {
			return a, true
		}
	}
}

// transactItem is a plan as part of a transaction.
func (l *RateLimiter) transactItem(lane *lane, p *plan.Write, id []byte) types.TransactWriteItem {
	o := schema.Op{Slot: l.lanes.ids.slot, ID: id}
	const allOld = types.ReturnValuesOnConditionCheckFailureAllOld
	if p.Kind == plan.Create {
		p.Create.Keys, p.Create.Entity, p.Create.Resource, p.Create.OpID = l.lanes.keys, lane.entity, lane.resource, id
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
		TableName: &l.repo.table, Key: lane.key, UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values, ReturnValuesOnConditionCheckFailure: allOld,
	}}
}
