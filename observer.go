package dynalimit

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/observe"
)

// begun calls tell, the observer's start function. It returns the context to go on with: the
// observer's, or the given one.
func begun[E any](ctx context.Context, tell func(context.Context, E) context.Context, e E) context.Context {
	if tell == nil {
		return ctx
	}
	if returned := tell(ctx, e); returned != nil {
		return returned
	}
	return ctx
}

// observed is an acquire with the data for its observer's events.
type observed struct {
	desk             *desk
	entity, resource string
	amounts          Amounts
	began            time.Time
}

// observe reports the start of an acquire to the observer.
func (d *desk) observe(ctx context.Context, entity, resource string, amounts Amounts) (context.Context, observed) {
	call := observed{desk: d, entity: entity, resource: resource, amounts: amounts}
	o := &d.observer
	if o.AcquireEnd != nil {
		call.began = d.stopwatch()
	}
	if o.AcquireStart != nil { // the event is made only for an observer
		ctx = begun(ctx, o.AcquireStart, observe.AcquireStart{EntityID: entity, Resource: resource, Amounts: amounts})
	}
	return ctx, call
}

// tell reports the end of an acquire to the observer.
func (c *observed) tell(ctx context.Context, degraded func() bool, memory bool, err error) {
	o := &c.desk.observer
	if err != nil && o.Denied != nil {
		c.desk.tellDenied(ctx, err, memory)
	}
	if o.AcquireEnd == nil {
		return
	}
	o.AcquireEnd(ctx, observe.AcquireEnd{
		EntityID: c.entity, Resource: c.resource, Amounts: c.amounts, Duration: c.desk.stopwatch().Sub(c.began), Err: err,
		Degraded: degraded(), FromMemory: memory,
	})
}

// tellDenied calls the observer's Denied, which must be set, if err is a denial.
func (d *desk) tellDenied(ctx context.Context, err error, memory bool) {
	denial, ok := errors.AsType[*LimitExceededError](err)
	if !ok {
		return
	}
	e := observe.Denial{EntityID: denial.EntityID, Resource: denial.Resource, RetryAfter: denial.RetryAfter, FromMemory: memory}
	for i := range denial.Statuses {
		s := &denial.Statuses[i]
		if !s.Exceeded {
			continue
		}
		at := observe.LevelParent
		if s.EntityID == denial.EntityID {
			at = observe.LevelEntity
		}
		e.Exceeded = append(e.Exceeded, observe.Exceeded{
			EntityID: s.EntityID, Resource: s.Resource, Level: at, Limit: s.Limit.Name,
			Requested: s.Requested, Remaining: s.Remaining, RetryAfter: s.RetryAfter,
		})
	}
	d.observer.Denied(ctx, e)
}

// tellDropped reports to the observer amounts that will never be written.
func (d *desk) tellDropped(amounts []plan.Signed) {
	if hear := d.observer.Dropped; hear != nil {
		hear(observe.Drop{Amounts: tokensOf(amounts)})
	}
}

// writeTrace reports the writes of the lanes to an observer.
type writeTrace struct{ *desk }

// hears reports whether the observer has a function for lanes' writes or pacing.
func (t writeTrace) hears() bool {
	return t.observer.WriteStart != nil || t.observer.WriteEnd != nil || t.observer.PacingChanged != nil
}

// Begin reports the start of a write to the observer. The returned function reports its end.
func (t writeTrace) Begin(ctx context.Context, w lane.Writing) (context.Context, func(lane.Answer)) {
	kind, began := writeKinds[w.Kind], t.stopwatch()
	ctx = begun(ctx, t.observer.WriteStart, observe.WriteStart{EntityID: w.Entity, Resource: w.Resource, Kind: kind, Callers: w.Callers})
	return ctx, func(a lane.Answer) {
		if t.observer.WriteEnd == nil {
			return
		}
		t.observer.WriteEnd(ctx, observe.WriteEnd{
			EntityID: w.Entity, Resource: w.Resource, Kind: kind, Callers: w.Callers,
			Outcome: a.Verdict.String(), Tries: a.Tries, Duration: t.stopwatch().Sub(began), Err: t.table.userErrorOf(w.Entity, w.Resource, a.Err),
		})
	}
}

// Paced reports to the observer the start or the end of the pacing of a bucket.
func (t writeTrace) Paced(p lane.Paced) {
	if t.observer.PacingChanged != nil {
		t.observer.PacingChanged(observe.PacingChange{EntityID: p.Entity, Resource: p.Resource, Why: pacedBecause(p), Interval: p.Interval, Paced: !p.Throttled.IsZero()})
	}
}

// writeKinds names the shapes of lanes' writes.
var writeKinds = map[plan.Kind]observe.WriteKind{
	plan.Create: observe.WriteCreate, plan.Spend: observe.WriteSpend, plan.Claim: observe.WriteClaim, plan.GiveBack: observe.WriteGiveBack, plan.Tell: observe.WriteTell,
}

// pacedBecause returns the cause of a bucket's pacing.
func pacedBecause(p lane.Paced) observe.ThrottleCause {
	if p.Reads {
		return observe.ReadsThrottled
	}
	return observe.WritesThrottled
}
