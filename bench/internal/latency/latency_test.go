package latency_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSummary(t *testing.T) {
	h := latency.New()
	require.Zero(t, h.Summary())
	for i := 1; i <= 1000; i++ {
		h.Record(time.Duration(i) * time.Millisecond)
	}
	s := h.Summary()
	require.EqualValues(t, 1000, s.Count)
	require.InEpsilon(t, 500*time.Millisecond, s.P50, 0.01)
	require.InEpsilon(t, 990*time.Millisecond, s.P99, 0.01)
	require.InEpsilon(t, time.Second, s.Max, 0.01)
}

func TestWhatLiesOutsideTheSpanCountsAtItsEnd(t *testing.T) {
	h := latency.New()
	h.Record(0)
	h.Record(time.Hour)
	s := h.Summary()
	require.EqualValues(t, 2, s.Count)
	require.Equal(t, time.Microsecond, s.P50)
	require.InEpsilon(t, 10*time.Minute, s.Max, 0.01)
}

func TestHistogramsOfProcessesAddUp(t *testing.T) {
	whole, sum := latency.New(), latency.New()
	for p := range 3 {
		part := latency.New()
		for i := range 100 {
			d := time.Duration(p*7919+i*31) * time.Microsecond
			part.Record(d)
			whole.Record(d)
		}
		text, err := json.Marshal(part.Export())
		require.NoError(t, err)
		var c latency.Counts
		require.NoError(t, json.Unmarshal(text, &c))
		sum.Add(latency.Import(c))
	}
	require.Equal(t, whole.Summary(), sum.Summary())
}

func TestMedian(t *testing.T) {
	require.Zero(t, latency.Median(nil))
	require.InDelta(t, 2.0, latency.Median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 2.5, latency.Median([]float64{4, 1, 3, 2}), 0)
}
