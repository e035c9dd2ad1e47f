package aggregator_test

import (
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
)

// houses are families whose parents have other limits than their children, or none.
func houses(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 1)
	ctx := t.Context()
	rpm, ttl := dynalimit.PerMinute("rpm", 1000), dynalimit.PerHour("ttl", 100_000)
	require.NoError(t, admin.New(w.repo).Limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{rpm, ttl}))
	for _, e := range []admin.Entity{
		{ID: "free", Plan: "pro"},
		{ID: "free-key", ParentID: "free", Cascade: true, Plan: "pro"},
		{ID: "free-2", ParentID: "free", Cascade: true},
		{ID: "few"},
		{ID: "few-key", ParentID: "few", Cascade: true, Plan: "pro"},
		{ID: "org", Plan: "pro"},
		{ID: "middle", ParentID: "org", Cascade: true},
		{ID: "low", ParentID: "middle", Cascade: true, Plan: "pro"},
	} {
		require.NoError(t, admin.New(w.repo).Entities.Create(ctx, e))
	}
	for _, entity := range []string{"free", "middle"} {
		require.NoError(t, admin.New(w.repo).Limits.SetUnlimited(ctx, admin.Scope{Entity: entity, Resource: "gpt-4"}))
	}
	require.NoError(t, admin.New(w.repo).Limits.Set(ctx, admin.Scope{Plan: "pro", Resource: "gpt-4"}, []dynalimit.Limit{rpm, ttl}))
	for entity, limit := range map[string]dynalimit.Limit{"few": rpm, "org": ttl} {
		_, err := admin.New(w.repo).Limits.SetConfig(ctx, admin.Scope{Entity: entity, Resource: "gpt-4"}, admin.LimitConfig{Limits: []dynalimit.Limit{limit}, Only: true})
		require.NoError(t, err)
	}
	return w
}

// TestTotalsWhereParentsHaveOtherLimits: what a call consumed counts once by each limit,
// whether parents have it or not, in an hour that is open, over, and closed, and in the sums
// of the day and the month.
func TestTotalsWhereParentsHaveOtherLimits(t *testing.T) {
	w := houses(t)
	ctx := t.Context()
	p, err := aggregator.New(w.db.Client(), "limits", nil)
	require.NoError(t, err)
	closer, err := aggregator.NewCloser(w.db.Client(), "limits", &aggregator.CloserOptions{Now: w.clock})
	require.NoError(t, err)
	r, err := aggregator.NewReader(w.db.Client(), "limits", &aggregator.ReaderOptions{Now: w.clock})
	require.NoError(t, err)
	began := w.clock()
	take := func(entity string, rpm, ttl int64) {
		t.Helper()
		lease, err := w.limiter.Acquire(ctx, entity, "gpt-4", dynalimit.Amounts{"rpm": rpm, "ttl": ttl})
		require.NoError(t, err)
		require.NoError(t, lease.Settle(ctx, nil))
	}
	check := func(when string, window aggregator.Window) {
		t.Helper()
		q := aggregator.Query{From: began, To: began.Add(time.Nanosecond), Window: window}
		total := func(list iter.Seq2[aggregator.Usage, error]) (rpm, ttl, entities int64) {
			for _, u := range all(t, list) {
				entities += u.Entities
				for _, l := range u.Limits {
					if l.Limit == "rpm" {
						rpm += l.Consumed / 1000
					} else {
						ttl += l.Consumed / 1000
					}
				}
			}
			return rpm, ttl, entities
		}
		rpm, ttl, entities := total(r.Resource(ctx, "gpt-4", q))
		assert.EqualValues(t, []int64{1111, 2222, 6}, []int64{rpm, ttl, entities}, "%s: free-key, free-2, few, few-key by ttl, low by rpm, org by ttl", when)
		rpm, ttl, entities = total(r.Plan(ctx, "pro", q))
		assert.EqualValues(t, []int64{1001, 2202, 4}, []int64{rpm, ttl, entities}, "%s: free-key, few-key by ttl, low by rpm, org by ttl", when)
		rpm, ttl, entities = total(r.Children(ctx, "free", q))
		assert.EqualValues(t, []int64{11, 22, 2}, []int64{rpm, ttl, entities}, "%s: free-key and free-2", when)
	}
	take("free-key", 1, 2)
	take("free-2", 10, 20)
	take("few-key", 100, 200)
	take("low", 900, 1800)
	take("low", 100, 200)
	check("pending", aggregator.Hour)
	w.stream.read()
	w.deliver(p)
	check("open", aggregator.Hour)
	w.now.Add(int64(10 * time.Minute))
	check("over", aggregator.Day)
	w.now.Add(int64(20 * time.Minute))
	_, err = closer.CloseDue(ctx)
	require.NoError(t, err)
	check("closed", aggregator.Hour)
	for w.clock().Month() == began.Month() {
		w.now.Add(int64(9 * time.Hour))
		_, err = closer.CloseDue(ctx)
		require.NoError(t, err)
	}
	w.now.Add(int64(26 * time.Hour))
	_, err = closer.CloseDue(ctx)
	require.NoError(t, err)
	for _, window := range []aggregator.Window{aggregator.Hour, aggregator.Day, aggregator.Month} {
		check("final", window)
	}
}
