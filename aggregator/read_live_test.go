package aggregator_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestHoursThatNoCloserCloses: a hundred of them are summed while they are read, more are
// refused with what to do; what entities used is read all the same.
func TestHoursThatNoCloserCloses(t *testing.T) {
	o := newOffice(t, noon, nil)
	o.entity("team", "", false, "pro")
	o.entity("key", "team", true, "pro")
	o.close(noon.Add(75 * time.Minute))
	o.used("key", "gpt-4", noon.Add(10*time.Hour), -1, 1000)
	first := noon.Add(time.Hour)
	read := func(hours int) map[string]error {
		now := first.Add(time.Duration(hours)*time.Hour - time.Minute)
		r, q := reading(t, o.db, now, aggregator.ReaderOptions{}), aggregator.Query{From: noon, To: now}
		failed := map[string]error{}
		var n int64
		for of, list := range map[string]error{
			"resource": consume(r.Resource(t.Context(), "gpt-4", q), &n), "plan": consume(r.Plan(t.Context(), "pro", q), &n),
			"children": consume(r.Children(t.Context(), "team", q), &n), "entity": consume(r.Entity(t.Context(), "key", q), &n),
		} {
			if list != nil {
				failed[of] = list
			}
		}
		assert.EqualValues(t, 1000*(4-len(failed)), n)
		return failed
	}
	assert.Empty(t, read(100))
	failed := read(101)
	assert.Len(t, failed, 3)
	for _, of := range []string{"resource", "plan", "children"} {
		assert.ErrorContains(t, failed[of], "usage is closed until 2026-03-29T13:00:00Z only; run a Closer", of)
	}
}

// consume adds what a list tells of, and returns its error.
func consume(list func(func(aggregator.Usage, error) bool), n *int64) (failed error) {
	for u, err := range list {
		failed = err
		for _, l := range u.Limits {
			*n += l.Consumed
		}
	}
	return failed
}

// TestFaultsWhileHoursAreSummed: from whichever request on all fail, a list ends with the error,
// and tells nothing that is not true.
func TestFaultsWhileHoursAreSummed(t *testing.T) {
	o := newOffice(t, noon, nil)
	o.entity("team", "", false, "pro")
	o.entity("key", "team", true, "pro")
	o.close(noon.Add(75 * time.Minute))
	o.used("team", "gpt-4", at(13, 59, 59), -1, 1000)
	o.passed("key", "gpt-4", at(14, 0, 0), -1, 1000)
	o.used("team", "gpt-4", at(14, 30, 0), 1000, 1500)
	o.passed("key", "gpt-4", at(14, 30, 0), 1000, 1500)
	o.used("team", "gpt-4", at(15, 0, 0), 1500, 1800)
	now := noon.Add(3*time.Hour + time.Minute)
	r, q := reading(t, o.db, now, aggregator.ReaderOptions{}), aggregator.Query{From: noon, To: now}
	for name, of := range map[string]struct {
		list func(*int64) error
		want int64
	}{
		"resource": {func(n *int64) error { return consume(r.Resource(t.Context(), "gpt-4", q), n) }, 1000 + 500 + 300},
		"plan":     {func(n *int64) error { return consume(r.Plan(t.Context(), "pro", q), n) }, 1000 + 500 + 300},
		"children": {func(n *int64) error { return consume(r.Children(t.Context(), "team", q), n) }, 1500},
	} {
		var requests atomic.Int64
		for failing := int64(1); ; failing++ {
			requests.Store(0)
			o.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
				if requests.Add(1) >= failing {
					return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "by a test"}}
				}
				return ddbmem.Fault{}
			})
			var n int64
			err := of.list(&n)
			o.db.SetFaults(nil)
			if requests.Load() < failing {
				require.NoError(t, err, name)
				assert.Equal(t, of.want, n, name)
				break
			}
			require.ErrorContains(t, err, "AccessDenied", "%s, from request %d on", name, failing)
			assert.LessOrEqual(t, n, of.want, "%s, from request %d on", name, failing)
		}
		assert.Greater(t, requests.Load(), int64(50), "%s: lists, snapshots, records, buckets", name)
	}
}
