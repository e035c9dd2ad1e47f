// Package keeperotel reports OpenTelemetry metrics of a keeper of budgets.
package keeperotel

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/dynalimit/dynalimit/keeper/budget"
)

// meterOf returns this package's meter of the provider. For a nil provider it returns a meter that discards all
// values.
func meterOf(meters metric.MeterProvider) metric.Meter {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	return meters.Meter("github.com/dynalimit/dynalimit/keeper/keeperotel")
}

// Watch registers metrics of a keeper's Health and Stats, which each collection reads without requests to the
// store. Watch one keeper per provider, and unregister the result when the keeper is closed. A nil provider
// reports nothing; errors come from the provider.
func Watch(meters metric.MeterProvider, keeper *budget.Keeper) (metric.Registration, error) {
	meter := meterOf(meters)
	open, err1 := meter.Int64ObservableGauge("dynalimit.keeper.store_open", metric.WithDescription("1 while DynamoDB does not answer."))
	queued, err2 := meter.Int64ObservableGauge("dynalimit.keeper.queued_operations", metric.WithUnit("{operation}"), metric.WithDescription("Operations that wait in this process to be written."))
	spooled, err3 := meter.Int64ObservableGauge("dynalimit.keeper.spooled_records", metric.WithUnit("{record}"), metric.WithDescription("Records that wait in the spool."))
	lookups, err4 := meter.Int64ObservableCounter("dynalimit.keeper.lookups", metric.WithUnit("{lookup}"), metric.WithDescription("Look-ups of configurations and of totals."))
	quota, err5 := meter.Float64ObservableGauge("dynalimit.keeper.quota_used", metric.WithUnit("%"), metric.WithDescription("The highest use of a quota among the apps that asked here in the last ten minutes."))
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		h, s := keeper.Health(), keeper.Stats()
		var down int64
		if h.Open {
			down = 1
		}
		to.ObserveInt64(open, down)
		to.ObserveInt64(queued, int64(h.Queued))
		to.ObserveInt64(spooled, int64(h.Spooled))
		for _, l := range []struct {
			kind, result string
			count        int64
		}{
			{"config", "hit", s.ConfigHits},
			{"config", "miss", s.ConfigMisses},
			{"totals", "hit", s.TotalHits},
			{"totals", "miss", s.TotalMisses},
		} {
			to.ObserveInt64(lookups, l.count, metric.WithAttributes(attribute.String("dynalimit.kind", l.kind), attribute.String("dynalimit.result", l.result)))
		}
		for label, percent := range s.QuotaPercent {
			to.ObserveFloat64(quota, percent, metric.WithAttributes(attribute.String("dynalimit.label", label)))
		}
		return nil
	}, open, queued, spooled, lookups, quota)
}

// CountEvents returns a function for budget.Options.OnEvent that counts, in OpenTelemetry counters, quotas that
// reached a percentage and apps that changed their label. The counters start at 0. A nil provider counts
// nothing; errors come from the provider.
func CountEvents(meters metric.MeterProvider) (func(context.Context, budget.Event), error) {
	meter := meterOf(meters)
	thresholds, err1 := meter.Int64Counter("dynalimit.keeper.quota_thresholds", metric.WithUnit("{quota}"), metric.WithDescription("Quotas that were used to a percentage."))
	flips, err2 := meter.Int64Counter("dynalimit.keeper.flips", metric.WithUnit("{app}"), metric.WithDescription("Apps that moved to another label."))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	used := func(percent int64) metric.MeasurementOption {
		return metric.WithAttributes(attribute.String("dynalimit.percent", strconv.FormatInt(percent, 10)))
	}
	flips.Add(context.Background(), 0)
	for _, percent := range []int64{50, 80, 100} { // the percentages of budget.Event
		thresholds.Add(context.Background(), 0, used(percent))
	}
	return func(ctx context.Context, e budget.Event) {
		if e.Kind == budget.EventFlip {
			flips.Add(ctx, 1)
			return
		}
		thresholds.Add(ctx, 1, used(e.Percent))
	}, nil
}
