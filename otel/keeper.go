package otel

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/dynalimit/dynalimit/budget"
)

// WatchKeeper measures how a keeper is, by its Health and Stats, whenever metrics are read, without
// requests; no provider, nil, measures nothing. One keeper of a provider can be watched at a time. An
// error is one of the provider.
func WatchKeeper(meters metric.MeterProvider, keeper *budget.Keeper) (metric.Registration, error) {
	g := &gauges{Meter: meterOf(meters)}
	open := g.gauge("dynalimit.keeper.store_open", "", "1 while DynamoDB does not answer.")
	queued := g.gauge("dynalimit.keeper.queued_operations", "{operation}", "Operations that wait in this process to be written.")
	spooled := g.gauge("dynalimit.keeper.spooled_records", "{record}", "Records that wait in the spool.")
	lookups := g.counter("dynalimit.keeper.lookups", "{lookup}", "Look-ups of configurations and of totals.")
	quota, err := g.Float64ObservableGauge("dynalimit.keeper.quota_used", metric.WithUnit("%"), metric.WithDescription("The highest use of a quota among the apps that asked here in the last ten minutes."))
	g.all, g.errs = append(g.all, quota), append(g.errs, err)
	return g.watch(func(to metric.Observer) {
		h, s := keeper.Health(), keeper.Stats()
		to.ObserveInt64(open, number(h.Open))
		to.ObserveInt64(queued, int64(h.Queued))
		to.ObserveInt64(spooled, int64(h.Spooled))
		byResult(to, lookups, map[string]int64{"hit": s.ConfigHits, "miss": s.ConfigMisses}, kindKey.String("config"))
		byResult(to, lookups, map[string]int64{"hit": s.TotalHits, "miss": s.TotalMisses}, kindKey.String("totals"))
		for label, percent := range s.QuotaPercent {
			to.ObserveFloat64(quota, percent, metric.WithAttributes(attribute.String("dynalimit.label", label)))
		}
	})
}

// KeeperEvents makes a function for budget.Options.OnEvent that counts quotas which were used to a
// percentage, and apps that moved to another label; no provider, nil, counts nothing. An error is one
// of the provider.
func KeeperEvents(meters metric.MeterProvider) (func(context.Context, budget.Event), error) {
	i := &instruments{Meter: meterOf(meters)}
	thresholds := i.counter("dynalimit.keeper.quota_thresholds", "{quota}", "Quotas that were used to a percentage.")
	flips := i.counter("dynalimit.keeper.flips", "{app}", "Apps that moved to another label.")
	used := func(percent int64) metric.MeasurementOption {
		return metric.WithAttributes(attribute.String("dynalimit.percent", strconv.FormatInt(percent, 10)))
	}
	flips.Add(context.Background(), 0)
	for _, percent := range []int64{50, 80, 100} { // those of budget.Event
		thresholds.Add(context.Background(), 0, used(percent))
	}
	return func(ctx context.Context, e budget.Event) {
		if e.Kind == budget.EventFlip {
			flips.Add(ctx, 1)
			return
		}
		thresholds.Add(ctx, 1, used(e.Percent))
	}, errors.Join(i.errs...)
}
