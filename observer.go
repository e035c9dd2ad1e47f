package dynalimit

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/observe"
)

// orGiven is the context that an observer returned, the given one if that is nil.
func orGiven(returned, given context.Context) context.Context {
	if returned == nil {
		return given
	}
	return returned
}

// writeTrace tells an observer about the writes of the lanes.
type writeTrace struct {
	table    availability
	observer observe.Observer
}

// Begin tells of the start of a write. The function that it returns tells of its end.
func (t writeTrace) Begin(ctx context.Context, w lane.Writing) (context.Context, func(a lane.Answer, took time.Duration)) {
	start := observe.WriteStart{EntityID: w.Entity, Resource: w.Resource, Kind: writeKinds[w.Kind], Callers: w.Callers}
	ctx = orGiven(t.observer.WriteStart(ctx, start), ctx)
	return ctx, func(a lane.Answer, took time.Duration) {
		t.observer.WriteEnd(ctx, observe.WriteEnd{
			EntityID: w.Entity, Resource: w.Resource, Kind: start.Kind, Callers: w.Callers,
			Outcome: a.Verdict.String(), Tries: a.Tries, Duration: took, Err: t.table.userErrorOf(w.Entity, w.Resource, a.Err),
		})
	}
}

// Paced tells that the writes of a bucket begin to be paced, or are not paced any more.
func (t writeTrace) Paced(p lane.Paced) {
	t.observer.PacingChanged(observe.PacingChange{EntityID: p.Entity, Resource: p.Resource, Why: pacedBecause(p), Interval: p.Interval, Paced: !p.Throttled.IsZero()})
}

// writeKinds names the shapes of lanes' writes.
var writeKinds = map[plan.Kind]observe.WriteKind{
	plan.Create: observe.WriteCreate, plan.Spend: observe.WriteSpend, plan.Claim: observe.WriteClaim, plan.GiveBack: observe.WriteGiveBack, plan.Tell: observe.WriteTell,
}

// pacedBecause is why a bucket's writes are paced.
func pacedBecause(p lane.Paced) observe.ThrottleCause {
	if p.Reads {
		return observe.ReadsThrottled
	}
	return observe.WritesThrottled
}
