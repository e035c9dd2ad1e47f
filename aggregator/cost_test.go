package aggregator_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
)

// entities are how many the cost of usage is measured with: 50, or what
// DYNALIMIT_ENTITIES says.
func entities(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DYNALIMIT_ENTITIES")
	if text == "" {
		return 50
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestUsageCost: what usage adds to the cost of an acquire, where records are gathered for
// 5 minutes.
func TestUsageCost(t *testing.T) {
	t.Parallel()
	many := entities(t)
	for name, test := range map[string]struct {
		entities, perMinute int
		most                float64 // write units an acquire
	}{
		"many entities, one acquire a minute each": {many, 1, 0.3},
		"a busy bucket": {1, 60, 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				units := usageUnits(t, test.entities, test.perMinute)
				t.Logf("%d entities: %.3f write units an acquire", test.entities, units)
				assert.LessOrEqual(t, units, test.most)
			})
		})
	}
}

// usageUnits is how many write units the usage of an hour costs, with its closing, for each
// of its acquires.
func usageUnits(t *testing.T, entities, perMinute int) float64 {
	t.Helper()
	w := newWorld(t, 1)
	w.db.OnWrite(nil)
	w.now.Store(noon.UnixNano())
	require.NoError(t, w.repo.SetSystemLimits(t.Context(), []dynalimit.Limit{dynalimit.PerMinute("rpm", 1_000_000), dynalimit.PerMinute("tpm", 1_000_000)}, nil))
	w.repo.InvalidateConfig("", "")
	p, err := aggregator.New(w.db.Client(), "limits", nil)
	require.NoError(t, err)
	var units float64
	for minute := range 60 {
		for range perMinute {
			for i := range entities {
				lease, err := w.limiter.Acquire(t.Context(), fmt.Sprint("tenant-", i), "gpt-4", dynalimit.Amounts{"rpm": 1, "tpm": 500})
				require.NoError(t, err)
				require.NoError(t, lease.Settle(t.Context(), nil))
			}
			w.now.Add(int64(time.Minute) / int64(perMinute))
		}
		if minute%5 == 4 {
			units += w.fold(p)
		}
	}
	closer, err := aggregator.NewCloser(w.db.Client(), "limits", &aggregator.CloserOptions{Now: w.clock})
	require.NoError(t, err)
	w.now.Add(int64(20 * time.Minute))
	before := w.db.Meter()
	closed, err := closer.CloseDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, entities, closed.Snapshots)
	units += w.db.Meter().Sub(before).WriteUnits()
	return units / float64(60*perMinute*entities)
}

// fold processes what the stream brought since the last one, and returns what that cost.
func (w *world) fold(p *aggregator.Processor) float64 {
	w.stream.records = map[string][]aggregator.Record{}
	for more := 1; more > 0; { // page after page
		before := len(w.all())
		w.stream.read()
		more = len(w.all()) - before
	}
	before := w.db.Meter()
	result, err := p.Process(context.WithoutCancel(w.t.Context()), w.all())
	require.NoError(w.t, err)
	require.Empty(w.t, result.Failures)
	return w.db.Meter().Sub(before).WriteUnits()
}

// all are the records that were read.
func (w *world) all() (records []aggregator.Record) {
	for _, id := range w.stream.order {
		records = append(records, w.stream.records[id]...)
	}
	return records
}
