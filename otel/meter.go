package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
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
	labels labels
	begun  begun
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

// counter makes a counter and keeps the provider's error in errs.
func (i *instruments) counter(name, unit, what string) metric.Int64Counter {
	c, err := i.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
	i.errs = append(i.errs, err)
	return c
}

// cost makes a counter of dollars, and keeps the provider's error in errs.
func (i *instruments) cost(name, what string) metric.Float64Counter {
	c, err := i.Float64Counter(name, metric.WithUnit("{USD}"), metric.WithDescription(what))
	i.errs = append(i.errs, err)
	return c
}

// outages makes the counter of tables' outages.
func (i *instruments) outages() metric.Int64Counter {
	return i.counter("dynalimit.outages", "{outage}", "Times that a table stopped answering.")
}

// duration makes a histogram in seconds with the given bounds, and keeps the provider's error in errs.
func (i *instruments) duration(name, what string, bounds []float64) metric.Float64Histogram {
	h, err := i.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
	i.errs = append(i.errs, err)
	return h
}

// newMeter makes the instruments of all metrics. It returns the provider's errors, joined.
func newMeter(meters metric.MeterProvider, l labels) (*meter, error) {
	i := &instruments{Meter: meters.Meter(scope)}
	m := &meter{
		labels:        l,
		acquires:      i.duration("dynalimit.acquire.duration", "Time of an Acquire, Wait or Do's acquire.", calls),
		corrections:   i.duration("dynalimit.correction.duration", "Time of a correction of a lease.", durations),
		writes:        i.duration("dynalimit.write.duration", "Time of a write to a bucket, with its tries.", durations),
		loads:         i.duration("dynalimit.config.load.duration", "Time of a read of a configuration.", durations),
		waits:         i.duration("dynalimit.denial.retry_after", "Wait that a denial names; none where no wait helps.", waits),
		granted:       i.counter("dynalimit.granted.tokens", "{token}", "Tokens that acquires were granted."),
		corrected:     i.counter("dynalimit.corrected.tokens", "{token}", "Tokens that leases were charged further, or given back."),
		overrun:       i.counter("dynalimit.overrun.tokens", "{token}", "Tokens beyond a limit that denied nobody."),
		grantedCost:   i.cost("dynalimit.granted.cost", "Money that acquires were granted."),
		correctedCost: i.cost("dynalimit.corrected.cost", "Money that leases were charged further, or given back."),
		overrunCost:   i.cost("dynalimit.overrun.cost", "Money beyond a limit that denied nobody."),
		dropped:       i.counter("dynalimit.dropped.tokens", "{token}", "Tokens that no bucket will be told."),
		outcomes:      i.counter("dynalimit.acquires", "{acquire}", "Acquires by what became of them."),
		denials:       i.counter("dynalimit.denials", "{denial}", "Limits that denied a call."),
		callers:       i.counter("dynalimit.write.callers", "{caller}", "Callers that writes carried."),
		requests:      i.counter("dynalimit.write.requests", "{request}", "Requests that writes took."),
		outages:       i.outages(),
		pacings:       i.counter("dynalimit.pacings", "{pacing}", "Times that writes to a bucket began to be paced."),
	}
	return m, errors.Join(i.errs...)
}

// observer returns the observer that passes a limiter's events to m.
func (m *meter) observer() observe.Observer {
	return observe.Observer{
		AcquireEnd: m.acquireEnd, Denied: m.countDenial, Corrected: m.correctedBy, Overran: m.countOverrun, WriteEnd: m.writeEnd,
		ConfigLoaded: m.configLoaded, AvailabilityChanged: m.availabilityChanged, PacingChanged: m.pacingChanged, Dropped: m.droppedBy,
	}
}

// acquireEnd counts an acquire by its outcome, records its duration, and counts the granted tokens of each
// limit.
func (m *meter) acquireEnd(ctx context.Context, e observe.AcquireEnd) {
	m.beginResource(ctx, e.EntityID, e.Resource)
	m.outcomes.Add(ctx, 1, metric.WithAttributes(m.labels.attributesOf(e.EntityID, e.Resource, outcome(e.Err, outcomeOfGrant(e.Degraded)))...))
	m.acquires.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(m.labels.attributesOf(e.EntityID, e.Resource, outcome(e.Err, outcomeOfGrant(e.Degraded)), memoryKey.Bool(e.FromMemory))...))
	if e.Err != nil {
		return
	}
	for limit, tokens := range e.Amounts {
		m.beginLimit(ctx, e.EntityID, e.Resource, limit, e.Units[limit])
		add(ctx, m.granted, m.grantedCost, e.Units[limit], tokens, m.labels.attributesOf(e.EntityID, e.Resource, limitKey.String(limit)))
	}
}

// microsPerDollar is the number of tokens of money in a dollar.
const microsPerDollar = 1e6

// add adds an amount to the counter of tokens or, if the unit is dollars, to that of costs.
func add(ctx context.Context, tokens metric.Int64Counter, cost metric.Float64Counter, unit string, amount int64, of []attribute.KeyValue) {
	if unit == dynalimit.USD {
		cost.Add(ctx, float64(amount)/microsPerDollar, metric.WithAttributes(of...))
		return
	}
	tokens.Add(ctx, amount, metric.WithAttributes(of...))
}

// countDenial counts each limit that denied a call, and records the wait if one helps.
func (m *meter) countDenial(ctx context.Context, e observe.Denial) {
	for i := range e.Exceeded {
		x := &e.Exceeded[i]
		m.beginDenials(ctx, x.EntityID, x.Resource, x.Limit)
		m.denials.Add(ctx, 1, metric.WithAttributes(m.labels.attributesOf(x.EntityID, x.Resource, limitKey.String(x.Limit), levelKey.String(string(x.Level)), memoryKey.Bool(e.FromMemory))...))
	}
	if e.RetryAfter != dynalimit.Never {
		m.waits.Record(ctx, e.RetryAfter.Seconds(), metric.WithAttributes(m.labels.attributesOf(e.EntityID, e.Resource)...))
	}
}

// correctedBy records the duration of a lease's correction, and counts the tokens charged or given back, by
// limit.
func (m *meter) correctedBy(ctx context.Context, e observe.Correction) {
	kind := kindKey.String(string(e.Kind))
	m.corrections.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(m.labels.attributesOf(e.EntityID, e.Resource, kind, outcome(e.Err, "done"))...))
	for limit, change := range e.Change {
		direction := "charged"
		if change < 0 {
			direction, change = "given_back", -change
		}
		add(ctx, m.corrected, m.correctedCost, e.Units[limit], change, m.labels.attributesOf(e.EntityID, e.Resource, limitKey.String(limit), kind, directionKey.String(direction)))
	}
}

// countOverrun counts tokens beyond a limit that denied nobody.
func (m *meter) countOverrun(e observe.Overrun) {
	add(context.Background(), m.overrun, m.overrunCost, e.Unit, e.Amount, m.labels.attributesOf(e.EntityID, e.Resource, limitKey.String(e.Limit), shadowKey.Bool(e.Shadow)))
}

// writeEnd records the duration of a bucket's write and counts its callers and requests.
func (m *meter) writeEnd(ctx context.Context, e observe.WriteEnd) {
	kind := kindKey.String(string(e.Kind))
	m.writes.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(m.labels.attributesOf(e.EntityID, e.Resource, kind, outcomeKey.String(e.Outcome))...))
	of := metric.WithAttributes(m.labels.attributesOf(e.EntityID, e.Resource, kind)...)
	m.callers.Add(ctx, int64(e.Callers), of)
	m.requests.Add(ctx, int64(e.Tries), of)
}

// configLoaded records the duration of a configuration's read.
func (m *meter) configLoaded(e observe.ConfigLoad) {
	m.loads.Record(context.Background(), e.Duration.Seconds(), metric.WithAttributes(m.labels.attributesOf(e.EntityID, e.Resource, outcome(e.Err, "done"))...))
}

// availabilityChanged counts the beginning of a table's outage.
func (m *meter) availabilityChanged(e observe.AvailabilityChange) {
	if e.Open {
		m.outages.Add(context.Background(), 1, metric.WithAttributes(tableKey.String(e.Table)))
	}
}

// pacingChanged counts the beginning of paced writes to a bucket.
func (m *meter) pacingChanged(e observe.PacingChange) {
	if e.Paced {
		m.pacings.Add(context.Background(), 1, metric.WithAttributes(m.labels.attributesOf(e.EntityID, e.Resource, causeKey.String(string(e.Why)))...))
	}
}

// droppedBy counts tokens, by limit, that no bucket will count.
func (m *meter) droppedBy(e observe.Drop) {
	for limit, tokens := range e.Amounts {
		m.dropped.Add(context.Background(), tokens, metric.WithAttributes(limitKey.String(limit)))
	}
}
