package aggregator_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
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

// TestReadersOfANamespace see nothing of another one, whose entities, plans and resources have
// the same names; whether hours are summed while they are read, or were closed; and a Closer
// closes, and makes anew, what it is asked for alone.
func TestReadersOfANamespace(t *testing.T) {
	o := newOffice(t, noon, &aggregator.CloserOptions{Namespaces: []string{"eu"}})
	require.NoError(t, admin.New(o.repo).Namespaces.Register(t.Context(), "eu"))
	var records []aggregator.Record
	for i, name := range []string{"", "eu"} {
		repo, err := dynalimit.NewRepository(o.db.Client(), "limits", &dynalimit.RepositoryOptions{Namespace: name, Principal: "ann", Now: func() time.Time { return o.now }})
		require.NoError(t, err)
		prefix := map[bool]string{true: name + "/"}[name != ""]
		for _, e := range []admin.Entity{{ID: "team", Plan: "pro"}, {ID: "key", ParentID: "team", Cascade: true, Plan: "pro"}} {
			require.NoError(t, admin.New(repo).Entities.Create(t.Context(), e))
			r := record(len(records)+1, at(12, 59, 30), -1, int64(1000+i))
			r.Keys = map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: prefix + "ENTITY#" + e.ID}, "SK": &types.AttributeValueMemberS{Value: "#BUCKET#gpt-4"}}
			if e.ID == "key" {
				r = passing(r)
			}
			if e.ID == "key" && name == "" {
				r.Time = at(13, 0, 30) // across a full hour in one of them
			}
			records = append(records, r)
		}
	}
	o.close(noon)
	process(t, o.p, records...)
	o.now = at(14, 30, 0)
	q := aggregator.Query{From: noon, To: at(14, 0, 0)}
	check := func(when string) {
		for i, name := range []string{"", "eu"} {
			r, want := reading(t, o.db, o.now, aggregator.ReaderOptions{Namespace: name}), int64(1000+i)
			for of, list := range map[string]struct {
				list func(func(aggregator.Usage, error) bool)
				want int64
			}{
				"entity":   {r.Entity(t.Context(), "key", q), want},
				"resource": {r.Resource(t.Context(), "gpt-4", q), want},
				"plan":     {r.Plan(t.Context(), "pro", q), want},
				"children": {r.Children(t.Context(), "team", q), want},
				"entities": {r.Entities(t.Context(), q), 2 * want},
			} {
				var n int64
				require.NoError(t, consume(list.list, &n))
				assert.Equal(t, list.want, n, "%s of %q, %s", of, name, when)
			}
			used, err := r.Used(t.Context(), q)
			require.NoError(t, err)
			assert.Equal(t, []aggregator.Used{{Resource: "gpt-4", Entity: "key"}, {Resource: "gpt-4", Entity: "team"}}, used)
		}
	}
	own := func(when string) {
		for key := range sums(t, o.db) {
			assert.Regexp(t, "^eu/", key, when)
		}
	}
	check("open")
	o.close(o.now)
	own("closed")
	assert.Len(t, sums(t, o.db), 3, "of the resource, the plan and the children")
	check("closed")
	_, err := o.closer.Close(t.Context(), noon.Add(-12*time.Hour), noon.Add(2*time.Hour))
	require.NoError(t, err)
	own("made anew")
	check("made anew")
}
