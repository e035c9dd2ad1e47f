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

// gauge makes an observable gauge for watch, and keeps the provider's error in errs.
func (g *gauges) gauge(name, unit, what string) metric.Int64ObservableGauge {
	i, err := g.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
	g.all, g.errs = append(g.all, i), append(g.errs, err)
	return i
}

// counter makes an observable counter for watch, and keeps the provider's error in errs.
func (g *gauges) counter(name, unit, what string) metric.Int64ObservableCounter {
	i, err := g.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
	g.all, g.errs = append(g.all, i), append(g.errs, err)
	return i
}

// watch registers a callback that runs look whenever metrics are read. It fails if an instrument could not be
// made.
func (g *gauges) watch(look func(metric.Observer)) (metric.Registration, error) {
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
	outages := i.outages()
	g.errs = i.errs
	open := g.gauge("dynalimit.table.open", "", "1 while the table does not answer.")
	silent := g.gauge("dynalimit.silent.buckets", "{bucket}", "Buckets that do not answer although the table may.")
	waiting := g.gauge("dynalimit.waiting.tokens", "{token}", "Tokens of which buckets have still to be told.")
	settling := g.gauge("dynalimit.settling.leases", "{lease}", "Leases that are settled behind their callers.")
	size := g.gauge("dynalimit.config.cached", "{configuration}", "Configurations that are held.")
	doubt := g.counter("dynalimit.doubt.tokens", "{token}", "Tokens that may have been written although no answer came.")
	lookups := g.counter("dynalimit.config.lookups", "{lookup}", "Look-ups of configurations.")
	outages.Add(context.Background(), 0, metric.WithAttributes(tableKey.String(repo.Table())))
	return g.watch(func(to metric.Observer) {
		h, c := limiter.Health(), repo.ConfigCacheStats()
		to.ObserveInt64(open, boolToInt(h.Open))
		to.ObserveInt64(silent, int64(h.SilentBuckets))
		to.ObserveInt64(settling, int64(h.Settling))
		to.ObserveInt64(size, int64(c.Size))
		for limit, tokens := range h.Waiting {
			to.ObserveInt64(waiting, tokens, metric.WithAttributes(limitKey.String(limit)))
		}
		for limit, tokens := range h.Doubt {
			to.ObserveInt64(doubt, tokens, metric.WithAttributes(limitKey.String(limit)))
		}
		byResult(to, lookups, map[string]int64{"hit": c.Hits, "stale": c.StaleHits, "miss": c.Misses})
	})
}

// byResult observes the values of an instrument, each with its key as the result attribute.
func byResult(to metric.Observer, i metric.Int64Observable, values map[string]int64, more ...attribute.KeyValue) {
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
