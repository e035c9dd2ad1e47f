package aggregator_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
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

// storeLatency is how long each request of the function takes in TestUsageCost, and batch how
// many records of buckets with two limits are 6 MB, which Lambda sends at once at most: 2 KB
// each (TestRecordsOfACall of package lambda).
const (
	storeLatency = 5 * time.Millisecond
	batch        = 3000
)

// usageCost is what usage of an hour costs, with its closing.
type usageCost struct {
	// units are write units.
	units float64
	// calls of the function, and how long they wait for DynamoDB altogether.
	calls int
	busy  time.Duration
}

// TestUsageCost: what usage adds to the cost of an acquire, where records are gathered for
// 5 minutes, and what the function is called for.
func TestUsageCost(t *testing.T) {
	t.Parallel()
	many := entities(t)
	for name, test := range map[string]struct {
		entities, perMinute int
		most                float64 // write units an acquire
		calls               int
		busy                time.Duration
	}{
		"many entities, one acquire a minute each": {many, 1, 0.3, 24 * max(1, many/100), time.Duration(many) * time.Second},
		"a busy bucket": {1, 60, 0.1, 24, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := usageOfAnHour(t, test.entities, test.perMinute)
				units := c.units / float64(60*test.perMinute*test.entities)
				t.Logf("%d entities: %.3f write units an acquire; an hour's calls of the function: %d, %v", test.entities, units, c.calls, c.busy)
				assert.LessOrEqual(t, units, test.most)
				assert.LessOrEqual(t, c.calls, test.calls)
				assert.LessOrEqual(t, c.busy, test.busy)
			})
		})
	}
}

// usageOfAnHour is what the usage of an hour costs.
func usageOfAnHour(t *testing.T, entities, perMinute int) (c usageCost) {
	t.Helper()
	w := newWorld(t, 1)
	w.db.OnWrite(nil)
	w.now.Store(noon.UnixNano())
	require.NoError(t, admin.New(w.repo).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1_000_000), dynalimit.PerMinute("tpm", 1_000_000)}))
	w.repo.InvalidateConfig("", "")
	p, err := aggregator.New(w.db.Client(), "limits", nil)
	require.NoError(t, err)
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
			w.fold(p, &c)
		}
	}
	closer, err := aggregator.NewCloser(w.db.Client(), "limits", &aggregator.CloserOptions{Now: w.clock})
	require.NoError(t, err)
	w.now.Add(int64(20 * time.Minute))
	w.call(&c, func() {
		closed, err := closer.CloseDue(t.Context())
		require.NoError(t, err)
		require.Equal(t, entities, closed.Snapshots)
	})
	c.calls += 11 // a schedule calls every 5 minutes
	return c
}

// call counts what a call of the function costs.
func (w *world) call(c *usageCost, do func()) {
	w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: storeLatency} })
	defer w.db.SetFaults(nil)
	before, began := w.db.Meter(), time.Now()
	do()
	c.units += w.db.Meter().Sub(before).WriteUnits()
	c.calls++
	c.busy += time.Since(began)
}

// fold processes what the stream brought since the last one.
func (w *world) fold(p *aggregator.Processor, c *usageCost) {
	w.stream.records = map[string][]aggregator.Record{}
	for more := 1; more > 0; { // page after page
		before := len(w.all())
		w.stream.read()
		more = len(w.all()) - before
	}
	for records := range slices.Chunk(w.all(), batch) {
		w.call(c, func() {
			result, err := p.Process(context.WithoutCancel(w.t.Context()), records)
			require.NoError(w.t, err)
			require.Empty(w.t, result.Failures)
		})
	}
}

// all are the records that were read.
func (w *world) all() (records []aggregator.Record) {
	for _, id := range w.stream.order {
		records = append(records, w.stream.records[id]...)
	}
	return records
}
