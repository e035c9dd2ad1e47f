package dynalimit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/observe"
)

// reports tell an observer of the events of a limiter.
type reports struct {
	observe.Observer
	desk   *call.Desk
	layout *layout.Layout
	// acquires means that the observer has a function for acquires or denials.
	acquires bool
}

// newReports returns the reports of a limiter to an observer. Its desk must be set before the first report.
func newReports(o observe.Observer, l *layout.Layout) *reports {
	return &reports{Observer: o, layout: l, acquires: o.AcquireStart != nil || o.AcquireEnd != nil || o.Denied != nil}
}

// observed is an acquire with the data for its observer's events.
type observed struct {
	reports          *reports
	entity, resource string
	amounts          Amounts
	began            time.Time
}

// observeAcquire reports the start of an acquire to the observer. It returns the observer's context, and the
// record for the report of the end.
func (r *reports) observeAcquire(ctx context.Context, entity, resource string, amounts Amounts) (context.Context, observed) {
	c := observed{reports: r, entity: entity, resource: resource, amounts: amounts}
	o := &r.Observer
	if o.AcquireEnd != nil {
		c.began = r.desk.Stopwatch()
	}
	if o.AcquireStart != nil { // the event is made only for an observer
		ctx = call.BeginEvent(ctx, o.AcquireStart, observe.AcquireStart{EntityID: entity, Resource: resource, Amounts: amounts})
	}
	return ctx, c
}

// reportEnd reports the end of an acquire to the observer, and its denial if err is one. memory means that no
// bucket was asked.
func (c *observed) reportEnd(ctx context.Context, lease *Lease, memory bool, err error) {
	o := &c.reports.Observer
	if err != nil && o.Denied != nil {
		c.reports.reportDenial(ctx, err, memory)
	}
	if o.AcquireEnd == nil {
		return
	}
	var units map[string]string
	if err == nil {
		units = lease.units()
	}
	o.AcquireEnd(ctx, observe.AcquireEnd{
		EntityID: c.entity, Resource: c.resource, Amounts: c.amounts, Units: units, Duration: c.reports.desk.Stopwatch().Sub(c.began), Err: err,
		Degraded: lease.Degraded(), FromMemory: memory,
	})
}

// reportDenial reports err, if it is a denial, with the limits that deny to the observer's Denied, which must
// be set. memory means that no bucket was asked.
func (r *reports) reportDenial(ctx context.Context, err error, memory bool) {
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
	r.Denied(ctx, e)
}

// reportDrop reports to the observer, if it has a function for it, amounts that will never be written, in whole
// tokens; amounts is in millitokens.
func (r *reports) reportDrop(amounts []plan.Signed) {
	if hear := r.Dropped; hear != nil {
		hear(observe.Drop{Amounts: tokensOf(amounts)})
	}
}

// writeTrace reports the writes of the lanes to an observer.
type writeTrace struct{ *reports }

// Begin reports the start of a write to the observer, and returns the observer's context. The returned function
// reports the end of the write, if the observer has a function for it.
func (t writeTrace) Begin(ctx context.Context, w lane.Writing) (context.Context, func(lane.Answer)) {
	kind, began := writeKinds[w.Kind], t.desk.Stopwatch()
	ctx = call.BeginEvent(ctx, t.WriteStart, observe.WriteStart{EntityID: w.Entity, Resource: w.Resource, Kind: kind, Callers: w.Callers})
	return ctx, func(a lane.Answer) {
		if t.Crossed != nil && a.Image != nil && (w.Before != nil || w.Kind == plan.Create) {
			t.reportCrossings(w, a.Image)
		}
		if t.WriteEnd == nil {
			return
		}
		t.WriteEnd(ctx, observe.WriteEnd{
			EntityID: w.Entity, Resource: w.Resource, Kind: kind, Callers: w.Callers,
			Outcome: a.Verdict.String(), Tries: a.Tries, Duration: t.desk.Stopwatch().Sub(began), Err: errorOf(t.layout, t.desk.ReasonOf(w.Entity, w.Resource, a.Err)),
		})
	}
}

// reportCrossings reports to the observer's Crossed, which must be set, the thresholds of alerts that the use has
// reached in after, the image of a write's answer, since the image before the write.
func (t writeTrace) reportCrossings(w lane.Writing, after *schema.Image) {
	for _, c := range after.CrossingsSince(w.Before) {
		e := observe.Crossing{EntityID: w.Entity, Resource: w.Resource, Limit: c.Limit, Percent: c.Percent, Amount: c.Amount / milli, Used: c.Used / milli}
		if after.HasUnit(c.Limit) {
			e.Unit = schema.USD
		}
		t.Crossed(e)
	}
}

// Paced reports to the observer, if it has a function for it, the start or the end of the pacing of a bucket.
func (t writeTrace) Paced(p lane.Paced) {
	if t.PacingChanged != nil {
		t.PacingChanged(observe.PacingChange{EntityID: p.Entity, Resource: p.Resource, Why: pacedBecause(p), Interval: p.Interval, Paced: !p.Throttled.IsZero()})
	}
}

// writeKinds names the shapes of lanes' writes.
var writeKinds = map[plan.Kind]observe.WriteKind{
	plan.Create: observe.WriteCreate, plan.Spend: observe.WriteSpend, plan.Claim: observe.WriteClaim, plan.GiveBack: observe.WriteGiveBack, plan.Tell: observe.WriteTell,
}

// pacedBecause returns the cause of a bucket's pacing for the observer: throttled reads or throttled writes.
func pacedBecause(p lane.Paced) observe.ThrottleCause {
	if p.Reads {
		return observe.ReadsThrottled
	}
	return observe.WritesThrottled
}

// observedCorrection is a lease correction to report to the observer. It is nil if the observer has no
// function for corrections.
type observedCorrection struct {
	reports *reports
	began   time.Time
	before  []plan.Signed
	event   observe.Correction
}

// observeCorrection returns the record of a lease correction, with its start and the amounts before it, which
// reportEnd reports to the observer. The lease's lock must be held.
func (r *reports) observeCorrection(kind observe.CorrectionKind, c *call.Call) *observedCorrection {
	of := c.Request()
	return &observedCorrection{
		reports: r, began: r.desk.Stopwatch(), before: c.Consumed(),
		event: observe.Correction{EntityID: of.Entity, Resource: of.Resource, Kind: kind, Used: tokensOf(c.Consumed()), Change: map[string]int64{}, Units: c.Units()},
	}
}

// setChange stores the lease's amounts after the correction in the event, and their differences from those
// before it, in whole tokens. It leaves out limits without a difference.
func (h *observedCorrection) setChange(consumed []plan.Signed) {
	h.event.Used = tokensOf(consumed)
	for _, a := range plan.Plus(consumed, plan.Negated(h.before)) {
		if a.Amount != 0 {
			h.event.Change[a.Name] = a.Amount / milli
		}
	}
}

// reportEnd reports the end of the correction to the observer. The lease's lock must not be held.
func (h *observedCorrection) reportEnd(ctx context.Context, err error) {
	h.event.Duration, h.event.Err = h.reports.desk.Stopwatch().Sub(h.began), err
	h.reports.Corrected(ctx, h.event)
}

// failedOnTheWay reports whether an error means that a try failed at the store, met other writers each time, or
// ended with ctx. It is false for refusals and denials.
func failedOnTheWay(ctx context.Context, err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrContended) || ctx.Err() != nil && errors.Is(err, ctx.Err())
}

// shielded returns an observer whose functions log panics and stop them, because they would lose a granted
// lease or end the process. Functions of events without a context run on a goroutine of their own.
func shielded(o observe.Observer, log *slog.Logger) observe.Observer {
	return observe.Observer{
		AcquireStart: shieldStart(log, o.AcquireStart), AcquireEnd: shieldCall(log, o.AcquireEnd),
		Denied: shieldCall(log, o.Denied), Corrected: shieldCall(log, o.Corrected), Overran: shield(log, o.Overran), Crossed: shield(log, o.Crossed), SlotsExpired: shield(log, o.SlotsExpired),
		WriteStart: shieldStart(log, o.WriteStart), WriteEnd: shieldCall(log, o.WriteEnd),
		ConfigLoaded: shield(log, o.ConfigLoaded), AvailabilityChanged: shield(log, o.AvailabilityChanged),
		PacingChanged: shield(log, o.PacingChanged), Dropped: shield(log, o.Dropped),
	}
}

// shield returns a function that calls hear on a goroutine of its own, waits for its end, and logs a panic. It
// returns nil if hear is nil.
func shield[E any](log *slog.Logger, hear func(E)) func(E) {
	if hear == nil {
		return nil
	}
	return func(e E) {
		if ended, ok := errors.AsType[*guard.Ended](guard.Apart(func() error { hear(e); return nil })); ok {
			logEnded(log, ended)
		}
	}
}

// shieldCall returns a function that calls hear, and logs a panic. It returns nil if hear is nil.
func shieldCall[E any](log *slog.Logger, hear func(context.Context, E)) func(context.Context, E) {
	if hear == nil {
		return nil
	}
	return func(ctx context.Context, e E) {
		guard.Call(func() { hear(ctx, e) }, func(ended *guard.Ended) { logEnded(log, ended) })
	}
}

// shieldStart returns a function that calls hear and returns its context; nil after a panic, which it logs. It
// returns nil if hear is nil.
func shieldStart[E any](log *slog.Logger, hear func(context.Context, E) context.Context) func(context.Context, E) context.Context {
	if hear == nil {
		return nil
	}
	return func(ctx context.Context, e E) (heard context.Context) {
		guard.Call(func() { heard = hear(ctx, e) }, func(ended *guard.Ended) { logEnded(log, ended) })
		return heard
	}
}

// logEnded logs that the observer panicked, or ended its goroutine, with the stack.
func logEnded(log *slog.Logger, e *guard.Ended) {
	log.Error("dynalimit: the observer did not return", slog.Any("cause", e), slog.String("stack", string(e.Stack)))
}
