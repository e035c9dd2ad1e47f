package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/observe"
)

var (
	// durations are the bounds of histograms of durations, in seconds: a call from memory takes
	// microseconds, one that waits for an outage seconds.
	durations = []float64{.000_01, .000_1, .001, .002_5, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}
	// calls are those of acquires: a Wait lasts until its tokens are there.
	calls = append(durations[:len(durations):len(durations)], 600, 3600)
	// waits are those of the waits that denials name: a quota of the calendar is full again after a
	// month at the latest.
	waits = []float64{.1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400, 14 * 86400, 31 * 86400}
)

// meter measures the events of a limiter.
type meter struct {
	labels  labels
	begun   begun
	options optionCache
	// acquires, corrections, writes and loads are durations, waits those of denials.
	acquires, corrections, writes, loads, waits metric.Float64Histogram
	// granted, corrected, overrun and dropped are tokens.
	granted, corrected, overrun, dropped metric.Int64Counter
	// grantedCost, correctedCost and overrunCost are dollars.
	grantedCost, correctedCost, overrunCost metric.Float64Counter
	// outcomes counts acquires, denials denying limits, callers the callers of writes, requests
	// the requests of writes, outages those of tables, pacings those of buckets.
	outcomes, denials, callers, requests, outages, pacings metric.Int64Counter
}

// instruments makes instruments, and collects the errors.
type instruments struct {
	metric.Meter
	errs []error
}

// newCounter returns a new counter of whole numbers with a name, unit and description. It appends the
// provider's error, or nil, to i.errs.
func (i *instruments) newCounter(name, unit, what string) metric.Int64Counter {
	c, err := i.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
	i.errs = append(i.errs, err)
	return c
}

// newCostCounter returns a new counter of dollars with a name and description. It appends the provider's error,
// or nil, to i.errs.
func (i *instruments) newCostCounter(name, what string) metric.Float64Counter {
	c, err := i.Float64Counter(name, metric.WithUnit("{USD}"), metric.WithDescription(what))
	i.errs = append(i.errs, err)
	return c
}

// newOutageCounter makes the counter of tables' outages and keeps the provider's error in i.errs.
func (i *instruments) newOutageCounter() metric.Int64Counter {
	return i.newCounter("dynalimit.outages", "{outage}", "Times that a table stopped answering.")
}

// newDuration returns a new histogram in seconds with a name, a description and the upper bounds of its
// buckets. It appends the provider's error, or nil, to i.errs.
func (i *instruments) newDuration(name, what string, bounds []float64) metric.Float64Histogram {
	h, err := i.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
	i.errs = append(i.errs, err)
	return h
}

// newMeter makes the instruments of all metrics at the provider and returns them, with the joined errors of the
// provider, or nil.
func newMeter(meters metric.MeterProvider, l labels) (*meter, error) {
	i := &instruments{Meter: meters.Meter(scope)}
	m := &meter{
		labels:        l,
		acquires:      i.newDuration("dynalimit.acquire.duration", "Time of an Acquire, Wait or Do's acquire.", calls),
		corrections:   i.newDuration("dynalimit.correction.duration", "Time of a correction of a lease.", durations),
		writes:        i.newDuration("dynalimit.write.duration", "Time of a write to a bucket, with its tries.", durations),
		loads:         i.newDuration("dynalimit.config.load.duration", "Time of a read of a configuration.", durations),
		waits:         i.newDuration("dynalimit.denial.retry_after", "Wait that a denial names; none where no wait helps.", waits),
		granted:       i.newCounter("dynalimit.granted.tokens", "{token}", "Tokens that acquires were granted."),
		corrected:     i.newCounter("dynalimit.corrected.tokens", "{token}", "Tokens that leases were charged further, or given back."),
		overrun:       i.newCounter("dynalimit.overrun.tokens", "{token}", "Tokens beyond a limit that denied nobody."),
		grantedCost:   i.newCostCounter("dynalimit.granted.cost", "Money that acquires were granted."),
		correctedCost: i.newCostCounter("dynalimit.corrected.cost", "Money that leases were charged further, or given back."),
		overrunCost:   i.newCostCounter("dynalimit.overrun.cost", "Money beyond a limit that denied nobody."),
		dropped:       i.newCounter("dynalimit.dropped.tokens", "{token}", "Tokens that no bucket will be told."),
		outcomes:      i.newCounter("dynalimit.acquires", "{acquire}", "Acquires by what became of them."),
		denials:       i.newCounter("dynalimit.denials", "{denial}", "Limits that denied a call."),
		callers:       i.newCounter("dynalimit.write.callers", "{caller}", "Callers that writes carried."),
		requests:      i.newCounter("dynalimit.write.requests", "{request}", "Requests that writes took."),
		outages:       i.newOutageCounter(),
		pacings:       i.newCounter("dynalimit.pacings", "{pacing}", "Times that writes to a bucket began to be paced."),
	}
	return m, errors.Join(i.errs...)
}

// newObserver returns an observer with functions that record a limiter's events in m.
func (m *meter) newObserver() observe.Observer {
	return observe.Observer{
		AcquireEnd: m.recordAcquire, Denied: m.countDenial, Corrected: m.recordCorrection, Overran: m.countOverrun, WriteEnd: m.recordWrite,
		ConfigLoaded: m.recordLoad, AvailabilityChanged: m.countOutage, PacingChanged: m.countPacing, Dropped: m.countDropped,
	}
}

// recordAcquire counts an acquire by its outcome and records its duration in seconds. If it was granted, it
// also adds the tokens, or dollars, of each limit. It first begins the counters of the resource and limits at
// 0.
func (m *meter) recordAcquire(ctx context.Context, e observe.AcquireEnd) {
	m.beginResource(ctx, e.EntityID, e.Resource)
	m.outcomes.Add(ctx, 1, m.optionOf(e.EntityID, e.Resource, outcomeAttribute(e.Err, outcomeOfGrant(e.Degraded))))
	m.acquires.Record(ctx, e.Duration.Seconds(), m.optionOf(e.EntityID, e.Resource, outcomeAttribute(e.Err, outcomeOfGrant(e.Degraded)), memoryKey.Bool(e.FromMemory)))
	if e.Err != nil {
		return
	}
	for limit, tokens := range e.Amounts {
		m.beginLimit(ctx, e.EntityID, e.Resource, limit, e.Units[limit])
		addAmount(ctx, m.granted, m.grantedCost, e.Units[limit], tokens, m.optionOf(e.EntityID, e.Resource, limitKey.String(limit)))
	}
}

// microsPerDollar is the number of tokens of money in a dollar.
const microsPerDollar = 1e6

// addAmount adds an amount in whole tokens to the counter tokens. If the unit is USD, the amount is in
// micro-dollars, and it adds dollars to the counter cost.
func addAmount(ctx context.Context, tokens metric.Int64Counter, cost metric.Float64Counter, unit string, amount int64, of metric.MeasurementOption) {
	if unit == dynalimit.USD {
		cost.Add(ctx, float64(amount)/microsPerDollar, of)
		return
	}
	tokens.Add(ctx, amount, of)
}

// countDenial adds one to the denials of each limit that denied a call, after it began their counters at 0. It
// records the wait in seconds unless no wait helps.
func (m *meter) countDenial(ctx context.Context, e observe.Denial) {
	for i := range e.Exceeded {
		x := &e.Exceeded[i]
		m.beginDenials(ctx, x.EntityID, x.Resource, x.Limit)
		m.denials.Add(ctx, 1, m.optionOf(x.EntityID, x.Resource, limitKey.String(x.Limit), levelKey.String(string(x.Level)), memoryKey.Bool(e.FromMemory)))
	}
	if e.RetryAfter != dynalimit.Never {
		m.waits.Record(ctx, e.RetryAfter.Seconds(), m.optionOf(e.EntityID, e.Resource))
	}
}

// recordCorrection records the duration of a lease's correction in seconds, and adds its changes, charged or
// given back, by limit, in tokens or dollars.
func (m *meter) recordCorrection(ctx context.Context, e observe.Correction) {
	kind := kindKey.String(string(e.Kind))
	m.corrections.Record(ctx, e.Duration.Seconds(), m.optionOf(e.EntityID, e.Resource, kind, outcomeAttribute(e.Err, "done")))
	for limit, change := range e.Change {
		direction := "charged"
		if change < 0 {
			direction, change = "given_back", -change
		}
		addAmount(ctx, m.corrected, m.correctedCost, e.Units[limit], change, m.optionOf(e.EntityID, e.Resource, limitKey.String(limit), kind, directionKey.String(direction)))
	}
}

// countOverrun adds the tokens, or dollars, beyond a limit that denied nobody to the overrun counter.
func (m *meter) countOverrun(e observe.Overrun) {
	addAmount(context.Background(), m.overrun, m.overrunCost, e.Unit, e.Amount, m.optionOf(e.EntityID, e.Resource, limitKey.String(e.Limit), shadowKey.Bool(e.Shadow)))
}

// recordWrite records the duration of a bucket's write in seconds with its outcome, and adds its callers and
// requests to their counters.
func (m *meter) recordWrite(ctx context.Context, e observe.WriteEnd) {
	kind := kindKey.String(string(e.Kind))
	m.writes.Record(ctx, e.Duration.Seconds(), m.optionOf(e.EntityID, e.Resource, kind, outcomeKey.String(e.Outcome)))
	of := m.optionOf(e.EntityID, e.Resource, kind)
	m.callers.Add(ctx, int64(e.Callers), of)
	m.requests.Add(ctx, int64(e.Tries), of)
}

// recordLoad records the duration of a configuration's read, in seconds, with its outcome.
func (m *meter) recordLoad(e observe.ConfigLoad) {
	m.loads.Record(context.Background(), e.Duration.Seconds(), m.optionOf(e.EntityID, e.Resource, outcomeAttribute(e.Err, "done")))
}

// countOutage counts the beginning of a table's outage. It ignores the end.
func (m *meter) countOutage(e observe.AvailabilityChange) {
	if e.Open {
		m.outages.Add(context.Background(), 1, metric.WithAttributes(tableKey.String(e.Table)))
	}
}

// countPacing counts the beginning of paced writes to a bucket. It ignores the end.
func (m *meter) countPacing(e observe.PacingChange) {
	if e.Paced {
		m.pacings.Add(context.Background(), 1, m.optionOf(e.EntityID, e.Resource, causeKey.String(string(e.Why))))
	}
}

// countDropped adds the whole tokens, by limit, that no bucket will count, to the dropped counter. Money counts
// in micro-dollars.
func (m *meter) countDropped(e observe.Drop) {
	for limit, tokens := range e.Amounts {
		m.dropped.Add(context.Background(), tokens, metric.WithAttributes(limitKey.String(limit)))
	}
}
