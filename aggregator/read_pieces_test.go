package aggregator_test

import (
	"fmt"
	"iter"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
)

// TestMoneyByModel: the money of organisations with teams, keys and models, over days whose quotas open anew, read in
// the open hour, and from closed hours and days. It is that of the leases by entity, and by model; a total counts it
// once.
func TestMoneyByModel(t *testing.T) {
	w := newWorld(t, 7)
	ctx, models := t.Context(), []string{"gpt-4.1", "gpt-4.1-mini", "claude-sonnet-4", "o_3"}
	for _, of := range models {
		_, err := admin.New(w.repo).Limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: of}, admin.LimitConfig{Groups: []string{"all"}})
		require.NoError(t, err)
	}
	require.NoError(t, admin.New(w.repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "all"},
		append(limits(1), dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(500), "America/Los_Angeles"))))
	var keys []string
	parents := map[string]string{}
	for org := range 2 {
		o := fmt.Sprintf("org-%d", org)
		require.NoError(t, admin.New(w.repo).Entities.Create(ctx, admin.Entity{ID: o}))
		for team := range 2 {
			id := fmt.Sprintf("%s-team-%d", o, team)
			require.NoError(t, admin.New(w.repo).Entities.Create(ctx, admin.Entity{ID: id, ParentID: o, Cascade: true}))
			for k := range 2 {
				key := fmt.Sprintf("%s-key-%d", id, k)
				require.NoError(t, admin.New(w.repo).Entities.Create(ctx, admin.Entity{ID: key, ParentID: id, Cascade: true}))
				keys, parents[key], parents[id] = append(keys, key), id, o
			}
		}
	}
	p, err := aggregator.New(w.db.Client(), "limits", nil)
	require.NoError(t, err)
	closer, err := aggregator.NewCloser(w.db.Client(), "limits", &aggregator.CloserOptions{Now: w.clock})
	require.NoError(t, err)
	r, err := aggregator.NewReader(w.db.Client(), "limits", &aggregator.ReaderOptions{Now: w.clock})
	require.NoError(t, err)

	began := w.clock()
	ledger := map[string]map[string]int64{} // by entity and model
	book := func(key, model string, micros int64) {
		for e := key; e != ""; e = parents[e] {
			if ledger[e] == nil {
				ledger[e] = map[string]int64{}
			}
			ledger[e][model] += micros
		}
		if ledger[""] == nil {
			ledger[""] = map[string]int64{}
		}
		ledger[""][model] += micros
	}
	check := func(when, who string, window aggregator.Window, list func(aggregator.Query) iter.Seq2[aggregator.Usage, error]) {
		t.Helper()
		byModel, sum, want := map[string]int64{}, int64(0), int64(0)
		for _, u := range all(t, list(aggregator.Query{Resource: "all", From: began, To: w.clock().Add(time.Nanosecond), Window: window})) {
			for _, l := range u.Limits {
				assert.NotContains(t, l.Limit, "#")
				if l.Limit == "usd" {
					assert.Equal(t, "usd", l.Unit)
					sum += l.Consumed / 1000
					for model, n := range l.ByModel {
						byModel[model] += n / 1000
					}
				} else {
					assert.Empty(t, l.Unit)
					assert.Nil(t, l.ByModel)
				}
			}
		}
		for _, n := range ledger[who] {
			want += n
		}
		assert.Equal(t, want, sum, "%s: %s", when, who)
		booked := maps.Clone(ledger[who])
		maps.DeleteFunc(booked, func(_ string, n int64) bool { return n == 0 })
		maps.DeleteFunc(byModel, func(_ string, n int64) bool { return n == 0 })
		assert.Equal(t, booked, byModel, "%s: %s", when, who)
	}
	checkAll := func(when string, window aggregator.Window) {
		t.Helper()
		check(when, "", window, func(q aggregator.Query) iter.Seq2[aggregator.Usage, error] { return r.Resource(ctx, "all", q) })
		check(when, "org-0", window, func(q aggregator.Query) iter.Seq2[aggregator.Usage, error] { return r.Entity(ctx, "org-0", q) })
		check(when, keys[0], window, func(q aggregator.Query) iter.Seq2[aggregator.Usage, error] { return r.Entity(ctx, keys[0], q) })
	}

	type open struct {
		lease      *dynalimit.Lease
		key, model string
		held       int64
	}
	var late []open
	settle := func(o open) {
		n := int64(w.rnd.IntN(int(o.held) * 2))
		require.NoError(t, o.lease.Settle(ctx, dynalimit.Amounts{"usd": n}))
		book(o.key, o.model, n-o.held)
	}
	for range 12 { // four hours and more each: nearly three days
		for range 12 {
			o := open{key: keys[w.rnd.IntN(len(keys))], model: models[w.rnd.IntN(len(models))], held: 1 + int64(w.rnd.IntN(100_000))}
			o.lease, err = w.limiter.Acquire(ctx, o.key, o.model, dynalimit.Amounts{"usd": o.held})
			require.NoError(t, err)
			book(o.key, o.model, o.held)
			if late = append(late, o); w.rnd.IntN(3) > 0 {
				i := w.rnd.IntN(len(late))
				settle(late[i])
				late = append(late[:i], late[i+1:]...)
			}
		}
		w.stream.read()
		w.deliver(p)
		checkAll("delivered", aggregator.Hour)
		w.now.Add(int64(5*time.Hour + time.Duration(w.rnd.IntN(60))*time.Minute))
		_, err = closer.CloseDue(ctx)
		require.NoError(t, err)
	}
	checkAll("closed", aggregator.Day)
	w.now.Add(int64(30 * time.Hour))
	_, err = closer.CloseDue(ctx)
	require.NoError(t, err)
	checkAll("final", aggregator.Day)
}
