package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/dynalimit/dynalimit"
)

// gauges are the values read with the metrics.
type gauges struct {
	metric.Meter
	all  []metric.Observable
	errs []error
}

// newGauge returns a new observable gauge with a name, unit and description. It appends the gauge to g.all, for
// registerCallback, and the provider's error, or nil, to g.errs.
func (g *gauges) newGauge(name, unit, what string) metric.Int64ObservableGauge {
	i, err := g.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
	g.all, g.errs = append(g.all, i), append(g.errs, err)
	return i
}

// newCounter returns a new observable counter with a name, unit and description. It appends the counter to
// g.all, for registerCallback, and the provider's error, or nil, to g.errs.
func (g *gauges) newCounter(name, unit, what string) metric.Int64ObservableCounter {
	i, err := g.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
	g.all, g.errs = append(g.all, i), append(g.errs, err)
	return i
}

// registerCallback makes the provider call look whenever metrics are read, for all instruments of g, until the
// returned registration is unregistered. It fails if an instrument could not be made.
func (g *gauges) registerCallback(look func(metric.Observer)) (metric.Registration, error) {
	if err := errors.Join(g.errs...); err != nil {
		return nil, err
	}
	return g.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		look(to)
		return nil
	}, g.all...)
}

// Watch reports the limiter's Health and the repository's ConfigCacheStats as metrics, whenever metrics are
// read, without requests to the table. A nil provider reports nothing. One limiter of a provider can be
// watched at a time. Unregister it when the limiter is closed. It also starts the count of the table's
// outages at 0, so that the first one shows as an increase. Errors come from the provider.
func Watch(meters metric.MeterProvider, limiter *dynalimit.RateLimiter, repo *dynalimit.Repository) (metric.Registration, error) {
	g := &gauges{Meter: meterOf(meters)}
	i := &instruments{Meter: g.Meter}
	outages := i.newOutageCounter()
	g.errs = i.errs
	open := g.newGauge("dynalimit.table.open", "", "1 while the table does not answer.")
	silent := g.newGauge("dynalimit.silent.buckets", "{bucket}", "Buckets that do not answer although the table may.")
	waiting := g.newGauge("dynalimit.waiting.tokens", "{token}", "Tokens of which buckets have still to be told.")
	inFlight := g.newGauge("dynalimit.in_flight.slots", "{slot}", "Slots of the process's open calls.")
	settling := g.newGauge("dynalimit.settling.leases", "{lease}", "Leases that are settled behind their callers.")
	size := g.newGauge("dynalimit.config.cached", "{configuration}", "Configurations that are held.")
	doubt := g.newCounter("dynalimit.doubt.tokens", "{token}", "Tokens that may have been written although no answer came.")
	lookups := g.newCounter("dynalimit.config.lookups", "{lookup}", "Look-ups of configurations.")
	outages.Add(context.Background(), 0, metric.WithAttributes(tableKey.String(repo.Table())))
	return g.registerCallback(func(to metric.Observer) {
		h, c := limiter.Health(), repo.ConfigCacheStats()
		to.ObserveInt64(open, boolToInt(h.Open))
		to.ObserveInt64(silent, int64(h.SilentBuckets))
		to.ObserveInt64(settling, int64(h.Settling))
		to.ObserveInt64(size, int64(c.Size))
		for limit, slots := range h.InFlight {
			to.ObserveInt64(inFlight, slots, metric.WithAttributes(limitKey.String(limit)))
		}
		for limit, tokens := range h.Waiting {
			to.ObserveInt64(waiting, tokens, metric.WithAttributes(limitKey.String(limit)))
		}
		for limit, tokens := range h.Doubt {
			to.ObserveInt64(doubt, tokens, metric.WithAttributes(limitKey.String(limit)))
		}
		observeByResult(to, lookups, map[string]int64{"hit": c.Hits, "stale": c.StaleHits, "miss": c.Misses})
	})
}

// observeByResult reports the values of an instrument to the reader of metrics, each with its key as the
// attribute dynalimit.result, and with the attributes more.
func observeByResult(to metric.Observer, i metric.Int64Observable, values map[string]int64, more ...attribute.KeyValue) {
	for result, n := range values {
		to.ObserveInt64(i, n, metric.WithAttributes(append(more[:len(more):len(more)], resultKey.String(result))...))
	}
}

// boolToInt returns 1 for true and 0 for false.
func boolToInt(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
