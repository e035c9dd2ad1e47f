package aggregator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
)

// consumed is what the limit rpm of windows counted, by where they begin.
func consumed(t *testing.T, windows []aggregator.Usage) map[string]int64 {
	t.Helper()
	sums := map[string]int64{}
	for _, u := range windows {
		for _, l := range u.Limits {
			sums[u.Resource+" "+u.Start.Format(time.RFC3339)] += l.Consumed
		}
	}
	return sums
}

// family is a table with a team, three keys that are below it, two of which cascade, and one
// that is alone; and with two teams, each with a key that cascades into it, of which one has
// no limits, and the other limits other things.
func family(t *testing.T, seed uint64) *world {
	t.Helper()
	w := newWorld(t, seed)
	for _, e := range []admin.Entity{
		{ID: "team", Plan: "pro"},
		{ID: "key-1", ParentID: "team", Cascade: true, Plan: "pro"},
		{ID: "key-2", ParentID: "team", Plan: "pro"},
		{ID: "free", Plan: "pro"},
		{ID: "key-3", ParentID: "free", Cascade: true, Plan: "pro"},
		{ID: "other", Plan: "pro"},
		{ID: "key-4", ParentID: "other", Cascade: true, Plan: "pro"},
	} {
		require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), e))
	}
	for _, resource := range []string{"gpt-4", "org/claude", "gpt"} {
		require.NoError(t, admin.New(w.repo).Limits.SetUnlimited(t.Context(), admin.Scope{Entity: "free", Resource: resource}))
		require.NoError(t, admin.New(w.repo).Limits.Set(t.Context(), admin.Scope{Entity: "other", Resource: resource}, limits(1)[1:]))
	}
	return w
}

// TestSumsOfAnHourThatIsOpen: a level of a cascade counts once, whether a snapshot has it,
// a bucket alone, or each a part.
func TestSumsOfAnHourThatIsOpen(t *testing.T) {
	w := family(t, 1)
	ctx := t.Context()
	p, err := aggregator.New(w.db.Client(), "limits", nil)
	require.NoError(t, err)
	r, err := aggregator.NewReader(w.db.Client(), "limits", &aggregator.ReaderOptions{Now: w.clock})
	require.NoError(t, err)
	take := func(entity string, n int64) {
		t.Helper()
		lease, err := w.limiter.Acquire(ctx, entity, "gpt-4", dynalimit.Amounts{"rpm": n})
		require.NoError(t, err)
		require.NoError(t, lease.Settle(ctx, nil))
	}
	sum := func(list func() map[string]int64) int64 {
		n := int64(0)
		for _, c := range list() {
			n += c
		}
		return n / 1000
	}
	now := aggregator.Query{From: w.clock(), To: w.clock().Add(time.Nanosecond)}
	resource := func() map[string]int64 { return consumed(t, all(t, r.Resource(ctx, "gpt-4", now))) }
	plan := func() map[string]int64 { return consumed(t, all(t, r.Plan(ctx, "pro", now))) }
	children := func() map[string]int64 { return consumed(t, all(t, r.Children(ctx, "team", now))) }
	for i, step := range []func(){
		func() { take("key-1", 1); take("key-2", 10); take("alone", 100) },
		func() { w.stream.read(); w.deliver(p) },
		func() { take("key-1", 2); take("key-0", 20); take("alone", 200) },
		func() { w.stream.read(); w.deliver(p) },
	} {
		step()
		want := []int64{111, 111, 333, 333}[i]
		assert.Equal(t, want, sum(resource), "step %d", i)
		assert.Equal(t, []int64{11, 11, 33, 33}[i], sum(plan), "step %d: key-0 is on no plan, but its team is", i)
		assert.Equal(t, []int64{11, 11, 33, 33}[i], sum(children), "step %d", i)
	}
}
