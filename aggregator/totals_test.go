package aggregator_test

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
)

// houses are families whose parents have other limits than their children, or none.
func houses(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 1)
	ctx := t.Context()
	rpm, ttl := dynalimit.PerMinute("rpm", 1000), dynalimit.PerHour("ttl", 100_000)
	require.NoError(t, w.repo.SetSystemLimits(ctx, []dynalimit.Limit{rpm, ttl}, nil))
	for _, e := range []dynalimit.Entity{
		{ID: "free", Plan: "pro"},
		{ID: "free-key", ParentID: "free", Cascade: true, Plan: "pro"},
		{ID: "free-2", ParentID: "free", Cascade: true},
		{ID: "few"},
		{ID: "few-key", ParentID: "few", Cascade: true, Plan: "pro"},
		{ID: "org", Plan: "pro"},
		{ID: "middle", ParentID: "org", Cascade: true},
		{ID: "low", ParentID: "middle", Cascade: true, Plan: "pro"},
	} {
		require.NoError(t, w.repo.CreateEntity(ctx, e))
	}
	for _, entity := range []string{"free", "middle"} {
		require.NoError(t, w.repo.SetUnlimited(ctx, dynalimit.Scope{Entity: entity, Resource: "gpt-4"}))
	}
	require.NoError(t, w.repo.SetPlanLimits(ctx, "pro", "gpt-4", []dynalimit.Limit{rpm, ttl}))
	require.NoError(t, w.repo.SetEntityLimits(ctx, "few", "gpt-4", []dynalimit.Limit{rpm}))
	require.NoError(t, w.repo.SetEntityLimits(ctx, "org", "gpt-4", []dynalimit.Limit{ttl}))
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
		assert.EqualValues(t, []int64{1101, 2202, 4}, []int64{rpm, ttl, entities}, "%s: free-key, few-key, low by rpm, org by ttl", when)
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

// TestTotalsOfAnHourInWhichAParentCountedNothing: its limits are those of another hour.
func TestTotalsOfAnHourInWhichAParentCountedNothing(t *testing.T) {
	o := newOffice(t, noon, nil)
	o.entity("team", "", false, "")
	o.entity("key", "team", true, "")
	o.close(noon)
	o.used("team", "gpt-4", noon, -1, 1000)
	o.used("key", "gpt-4", noon, -1, 1000)
	o.used("key", "gpt-4", noon.Add(time.Hour), 1000, 1500)
	o.close(noon.Add(3 * time.Hour))
	got := sums(t, o.db)
	assert.Equal(t, "rpm.n=1000 of 1", got["RESOURCE#gpt-4 #USAGE_HOUR#gpt-4#2026-03-29T12:00:00Z"])
	assert.Equal(t, "rpm.n=500 of 1", got["RESOURCE#gpt-4 #USAGE_HOUR#gpt-4#2026-03-29T13:00:00Z"])
}

// at is a moment of the day of noon.
func at(hour, minute, second int) time.Time {
	return noon.Add(time.Duration(hour-12)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
}

// TestCallsAcrossAFullHourCountOnce: where the levels of a call were written in two hours, in
// either order, it counts where the highest counted it, also when the hour is made anew.
func TestCallsAcrossAFullHourCountOnce(t *testing.T) {
	type used struct {
		entity string
		at     time.Time
		n      int64
	}
	for name, c := range map[string]struct {
		of        []used
		noon, one string // totals of the hours; "" for none
		day       string
	}{
		"the parent before":                 {[]used{{"team", at(12, 59, 59), 1000}, {"key", at(13, 0, 0), 1000}}, "rpm.n=1000 of 1", "", "rpm.n=1000 of 1"},
		"the parent after":                  {[]used{{"key", at(12, 59, 0), 1000}, {"team", at(13, 0, 59), 1000}}, "", "rpm.n=1000 of 1", "rpm.n=1000 of 1"},
		"with others of the parent":         {[]used{{"team", at(12, 5, 0), 70}, {"team", at(12, 59, 59), 1000}, {"key", at(13, 0, 0), 1000}}, "rpm.n=1070 of 1", "", "rpm.n=1070 of 1"},
		"while the parent counted others":   {[]used{{"team", at(12, 59, 59), 1000}, {"key", at(13, 0, 0), 1000}, {"team", at(13, 30, 0), 70}}, "rpm.n=1000 of 1", "rpm.n=70 of 1", "rpm.n=1070 of 1"},
		"a parent that stopped before":      {[]used{{"team", at(12, 58, 59), 1000}, {"key", at(13, 0, 0), 1000}}, "rpm.n=1000 of 1", "rpm.n=1000 of 1", "rpm.n=2000 of 2"},
		"a parent that began after":         {[]used{{"key", at(12, 59, 59), 1000}, {"team", at(13, 1, 0), 1000}}, "rpm.n=1000 of 1", "rpm.n=1000 of 1", "rpm.n=2000 of 2"},
		"a parent that stopped at it":       {[]used{{"team", at(12, 59, 59), 1000}, {"key", at(13, 0, 0), 1000}, {"key", at(13, 40, 0), 500}}, "rpm.n=1000 of 1", "rpm.n=500 of 1", "rpm.n=1500 of 2"},
		"what comes back on both sides":     {[]used{{"key", at(12, 59, 58), 1000}, {"team", at(13, 0, 0), 1000}, {"team", at(13, 0, 1), -400}, {"key", at(13, 0, 1), -400}}, "", "rpm.n=600 of 1", "rpm.n=600 of 1"},
		"a parent that nothing ever limits": {[]used{{"key", at(12, 59, 59), 1000}, {"key", at(13, 0, 0), 500}}, "rpm.n=1000 of 1", "rpm.n=500 of 1", "rpm.n=1500 of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t, noon, nil)
			require.NoError(t, o.repo.SetPlanLimits(t.Context(), "pro", "", limits(1)))
			o.entity("team", "", false, "pro")
			o.entity("key", "team", true, "pro")
			o.close(noon)
			counters := map[string]int64{}
			for _, u := range c.of {
				before := counters[u.entity]
				counters[u.entity] += u.n
				o.used(u.entity, "gpt-4", u.at, before, counters[u.entity])
			}
			check := func(final string) {
				got := sums(t, o.db)
				for _, of := range []string{"RESOURCE#gpt-4", "PLAN#pro"} {
					for hour, want := range map[string]string{"12": c.noon, "13": c.one} {
						if want != "" {
							want += final
						}
						assert.Equal(t, want, got[of+" #USAGE_HOUR#gpt-4#2026-03-29T"+hour+":00:00Z"], "%s at %s", of, hour)
					}
				}
			}
			hours := tokens(c.noon) + tokens(c.one)
			o.now = noon.Add(3 * time.Hour)
			assert.Equal(t, hours, o.read(t), "summed while it is read")
			o.close(noon.Add(3 * time.Hour))
			check("")
			assert.Equal(t, hours, o.read(t))
			o.close(noon.Add(39 * time.Hour))
			check(" final")
			got := sums(t, o.db)
			assert.Equal(t, c.day+" final", got["RESOURCE#gpt-4 #USAGE_DAY#gpt-4#2026-03-29"])
			assert.Equal(t, c.day+" final", got["PLAN#pro #USAGE_DAY#gpt-4#2026-03-29"])
		})
	}
}

// tokens are those that a sum tells of; 0 for none.
func tokens(sum string) (n int64) {
	_, _ = fmt.Sscanf(sum, "rpm.n=%d", &n)
	return n
}

// read is what a Reader tells of the resource in the hours from noon on, and of its plan.
func (o *office) read(t *testing.T) (n int64) {
	t.Helper()
	r, err := aggregator.NewReader(o.db.Client(), "limits", &aggregator.ReaderOptions{Now: func() time.Time { return o.now }})
	require.NoError(t, err)
	q, plan := aggregator.Query{From: noon, To: noon.Add(2 * time.Hour)}, int64(0)
	for _, u := range all(t, r.Resource(t.Context(), "gpt-4", q)) {
		n += u.Limits[0].Consumed
	}
	for _, u := range all(t, r.Plan(t.Context(), "pro", q)) {
		plan += u.Limits[0].Consumed
	}
	assert.Equal(t, n, plan, "of the plan that all are on")
	return n
}
