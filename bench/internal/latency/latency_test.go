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
