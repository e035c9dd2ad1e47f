package keeperotel_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/keeperotel"
)

// countersOf reads the counters of a reader, by name and attributes.
func countersOf(t *testing.T, reader *metric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	counters := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
				key := m.Name
				for _, a := range point.Attributes.ToSlice() {
					key += " " + a.Value.String()
				}
				counters[key] = point.Value
			}
		}
	}
	return counters
}

// Counters begin at 0, so that Prometheus sees the increase of the first event.
func TestCountEvents(t *testing.T) {
	reader := metric.NewManualReader()
	count, err := keeperotel.CountEvents(metric.NewMeterProvider(metric.WithReader(reader)))
	require.NoError(t, err)
	want := map[string]int64{
		"dynalimit.keeper.flips": 0, "dynalimit.keeper.quota_thresholds 50": 0, "dynalimit.keeper.quota_thresholds 80": 0, "dynalimit.keeper.quota_thresholds 100": 0,
	}
	assert.Equal(t, want, countersOf(t, reader))
	count(t.Context(), budget.Event{Kind: budget.EventThreshold, Percent: 80})
	count(t.Context(), budget.Event{Kind: budget.EventFlip})
	want["dynalimit.keeper.flips"], want["dynalimit.keeper.quota_thresholds 80"] = 1, 1
	assert.Equal(t, want, countersOf(t, reader))
}

// Without a provider nothing is measured.
func TestWithoutAProvider(t *testing.T) {
	watched, err := keeperotel.Watch(nil, &budget.Keeper{})
	require.NoError(t, err)
	require.NoError(t, watched.Unregister())
	count, err := keeperotel.CountEvents(nil)
	require.NoError(t, err)
	count(t.Context(), budget.Event{Kind: budget.EventFlip})
}
