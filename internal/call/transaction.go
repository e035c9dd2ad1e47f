package call

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/store"
	"github.com/dynalimit/dynalimit/observe"
)

// transaction is one charge of several levels, in flight.
type transaction struct {
	store.Transaction
	desk      *Desk
	request   *Request
	levels    levelList
	proposals []lane.Proposal
	// charged are the indexes of the levels that its items charge, in the items' order.
	charged []int
	// tries counts the requests, and unanswered the requests without an answer.
	tries, unanswered int
}

// newTransaction makes one transaction of the levels' proposed writes, and reports each of them to OnSend. It
// leaves out skipped levels, and sends nothing.
func newTransaction(d *Desk, r *Request, ls levelList, proposals []lane.Proposal) *transaction {
	t := &transaction{Transaction: store.NewTransaction(), desk: d, request: r, levels: ls, proposals: proposals}
	lanes := t.desk.Lanes
	operation := lanes.IDs.Last.Add(1)
	for i := range proposals {
		lv := &t.levels[i]
		if lv.isSkipped() {
			continue
		}
		if lanes.OnSend != nil {
			lanes.OnSend(lv.lane, operation, proposals[i].Rows)
		}
		t.desk.Buckets.AddWrite(&t.Transaction, lv.lane, &proposals[i].Write, schema.Op{Slot: lanes.IDs.Slot, ID: lane.OpID(operation, 0)})
		t.charged = append(t.charged, i)
	}
	return t
}

// commit sends the transaction, and books its answer at the levels; round is the number of refusals so far.
// Without an error it landed or must be decided again; an error is final. An unanswered one may still land, and
// followLost follows it.
func (t *transaction) commit(ctx context.Context, round int) (transactionAnswer, error) {
	lanes := t.desk.Lanes
	asked, began := lanes.Ask(), time.Now()
	lanes.Started()
	defer lanes.Stopped()
	end := t.reportStart(&ctx)
	a := t.deliver(ctx)
	end(a)
	if a.verdict == ddb.Unconfirmed {
		t.followLost(ctx, began)
		return a, t.desk.Table.unanswered(a.err)
	}
	if ddb.Classify(a.err, context.Background()).Answered {
		for _, i := range t.charged {
			t.levels[i].lane.Contact.NoteAnswer()
		}
	}
	return a, t.recordAnswers(a, asked, round)
}

const (
	// lostAskedAfter is the first wait before an unanswered transaction is asked for, and lostForgotten
	// the time until it is given up: DynamoDB knows its token for ten minutes.
	lostAskedAfter = 500 * time.Millisecond
	lostForgotten  = 9 * time.Minute
)

// transactionAnswer is the outcome of a transaction.
type transactionAnswer struct {
	verdict ddb.Verdict
	images  map[int]*schema.Image // of the conditions that failed, by place
	tries   int
	err     error
}

// maxLost is the number of lost answers after which the levels of a transaction are asked one by one.
const maxLost = 2

// deliver sends a transaction until its outcome is known. After a lost answer it sends the same bytes
// and token again. If the silence lasts, or ctx ends, the transaction is unconfirmed. A dead connection
// does not count as silence.
func (t *transaction) deliver(ctx context.Context) transactionAnswer {
	for {
		t.tries++
		a, began := transactionAnswer{tries: t.tries}, time.Now()
		a.verdict, a.images, a.err = t.desk.Transact(ctx, &t.Transaction, t.desk.Lanes.IDs.Slot)
		if a.verdict == ddb.Unconfirmed {
			t.unanswered++
		}
		switch {
		case a.verdict == ddb.Landed || a.verdict == ddb.Refused || t.unanswered == 0:
			return a
		case a.verdict == ddb.Failed || t.unanswered >= maxLost || t.tries >= lane.MaxTries || t.desk.Lanes.Table.Open(),
			time.Since(began) >= lane.SlowFailure && ddb.Classify(a.err, ctx).Silent, !lane.Backoff.Pause(ctx, t.unanswered):
			a.verdict = ddb.Unconfirmed // an earlier try may have landed
			return a
		}
	}
}

// recordAnswers books the answer to a transaction at every level, and gives the images to their lanes. It
// returns nil if the transaction landed or is to be decided again; an error is final.
func (t *transaction) recordAnswers(a transactionAnswer, asked lane.Asked, round int) error {
	switch a.verdict {
	case ddb.Landed:
		for _, i := range t.charged {
			t.levels[i].lane.Memory.NoteWriters(&t.proposals[i].Write, ddb.Landed, nil)
			lv := &t.levels[i]
			r := lv.bookCommitted(&t.proposals[i], t.desk.Buckets)
			lv.bookGrant(&r)
			lv.noteAnswer(r)
		}
		return nil
	case ddb.Refused:
		for index, image := range a.images {
			i := t.charged[index]
			t.levels[i].lane.Memory.NoteWriters(&t.proposals[i].Write, ddb.Refused, image)
			t.levels[i].lane.Memory.Observe(image, asked)
		}
		t.doubtUnanswered()
		return nil
	case ddb.Throttled:
		return nil
	case ddb.Conflicted, ddb.Unsent:
		if round+1 < lane.MaxTries {
			return nil
		}
	case ddb.Failed:
	}
	if a.verdict == ddb.Conflicted { // answered each time
		return newContended(t.request.Entity, t.request.Resource)
	}
	return a.err
}

// doubtUnanswered counts the charge of an unanswered try as in doubt; without such a try it does nothing. A
// later try was refused, but the earlier one may be in flight, and land when there is room again. All tries
// have one token, and so land at most once.
func (t *transaction) doubtUnanswered() {
	if t.unanswered == 0 {
		return
	}
	for _, i := range t.charged {
		t.desk.Lanes.Doubt(t.levels[i].asked)
	}
}

// reportStart reports the start of a transaction to the observer, and replaces *ctx with the observer's
// context. The returned function reports its end; it does nothing if no observer wants either.
func (t *transaction) reportStart(ctx *context.Context) (end func(transactionAnswer)) {
	o, r, stopwatch := &t.desk.Observer, t.request, t.desk.Stopwatch
	if o.WriteStart == nil && o.WriteEnd == nil {
		return func(transactionAnswer) {}
	}
	began := stopwatch()
	*ctx = BeginEvent(*ctx, o.WriteStart, observe.WriteStart{EntityID: r.Entity, Resource: r.Resource, Kind: observe.WriteTransaction, Callers: 1})
	seen := *ctx
	return func(a transactionAnswer) {
		e := observe.WriteEnd{
			EntityID: r.Entity, Resource: r.Resource, Kind: observe.WriteTransaction, Callers: 1, Outcome: a.verdict.String(),
			Tries: a.tries, Duration: stopwatch().Sub(began),
		}
		if a.verdict != ddb.Refused {
			e.Err = a.err
		}
		if o.WriteEnd != nil {
			o.WriteEnd(seen, e)
		}
	}
}

// followLost marks the charges of a transaction without an answer, which was sent at began, as pending. In the
// background it asks once, by the transaction's token, whether it landed, when its buckets answer; then the
// charges are given back. Unless the caller left soon, its buckets are suspects: each is asked by itself next.
func (t *transaction) followLost(ctx context.Context, began time.Time) {
	desk := t.desk
	ops := make(map[int]*lane.Op, len(t.charged))
	asked := ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(began) >= leastSilence
	ctx = context.WithoutCancel(ctx)
	for _, i := range t.charged {
		lv := &t.levels[i]
		if asked {
			lv.lane.Contact.Suspect()
		}
		ops[i] = lane.NewPending(ctx, lv.asked, t.proposals[i].Beyond, t.proposals[i].View.Config)
		ops[i].Model = t.proposals[i].Model
		lv.lane.Follow(ops[i])
	}
	desk.Lanes.Started()
	go func() {
		defer desk.Lanes.Stopped()
		landed := false // after any other answer it may still land
		if t.awaitAnswers() {
			_ = guard.Apart(func() error {
				verdict, _, _ := desk.Transact(ctx, &t.Transaction, desk.Lanes.IDs.Slot)
				landed = verdict == ddb.Landed
				return nil
			})
		}
		for _, i := range t.charged {
			lv := &t.levels[i] // read only its constant fields: it belongs to its caller by now
			r := lane.Result{Unconfirmed: true}
			if landed {
				r = lv.bookCommitted(&t.proposals[i], desk.Buckets)
			}
			lv.lane.Deliver(ops[i], r)
		}
	}()
}

// awaitAnswers waits until every bucket of a transaction answers, and probes the suspected ones. It returns
// false after nine minutes, or if the limiter is closed first.
func (t *transaction) awaitAnswers() bool {
	lanes := t.desk.Lanes
	wait, until := lostAskedAfter, time.Now().Add(lostForgotten)
	probe := false // callers ask the suspects first
	silent := func(i int) bool {
		at := t.levels[i].lane
		return at.Contact.Away() || at.Contact.Suspected() && !(probe && lanes.Answers(at))
	}
	for ; time.Now().Before(until); wait = min(2*wait, 10*time.Second) {
		if !slices.ContainsFunc(t.charged, silent) {
			return true
		}
		if !lanes.Sleep(wait) {
			return false
		}
		probe = true
	}
	return false
}

// bookCommitted returns the grant of a landed transaction at a level, books the slots that it took, and gives
// its computed image to the lane. DynamoDB returns no image for a transaction, so the lane reads the bucket
// before it denies. It does not change the level.
func (lv *level) bookCommitted(p *lane.Proposal, b *store.Buckets) lane.Result {
	image := p.View.Image
	if image == nil {
		image, _ = b.Decode(p.Write.Create.Item(), nil, 0) // the new bucket
	} else {
		image = p.View.After(lv.asked, p.Beyond, &p.Write)
	}
	if p.Write.Kind == plan.Claim {
		lv.lane.Memory.Drop()
	} else {
		lv.lane.Memory.Assume(p.View.Image, image)
	}
	r := lane.Result{Image: image, Config: p.View.Config, Now: p.View.Now, Down: p.Beyond, Model: p.Model}
	if p.Rows.HasMoves() {
		beside := lane.BesideOf(lv.lane)
		beside.BookSlots(&r, p.Rows)
	}
	return r
}

// BeginEvent calls start, the observer's start function, with e. It returns the context that start returns, or
// ctx if start or its result is nil.
func BeginEvent[E any](ctx context.Context, start func(context.Context, E) context.Context, e E) context.Context {
	if start == nil {
		return ctx
	}
	if returned := start(ctx, e); returned != nil {
		return returned
	}
	return ctx
}
