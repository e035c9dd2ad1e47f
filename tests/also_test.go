package tests

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// pool is a resource that calls charge besides their own.
const pool = "pool"

// pooled is a process whose key has 1,000 of x and y a day on the model and on the pool, which
// also has z; and, if grouped, on the group.
func pooled(t *testing.T, e *engine, grouped bool) *process {
	t.Helper()
	s := newProcess(t, e, nil)
	x, y := dynalimit.PerDay("x", 1000), dynalimit.PerDay("y", 1000)
	s.limits(admin.Scope{Entity: "key"}, x, y)
	s.limits(admin.Scope{Everyone: true, Resource: pool}, x, y, dynalimit.PerDay("z", 1000))
	if grouped {
		_, err := s.repo.SetConfig(t.Context(), admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Groups: []string{pool}, Version: admin.AnyVersion})
		require.NoError(t, err)
	}
	return s
}

// What WithAlso names is taken beside what the call asks; corrections change it by as much, for
// the limits that it names; nothing is kept where nothing is used.
func TestAlso(t *testing.T) {
	type used struct{ modelX, modelY, poolX, poolY, poolZ int64 }
	a := func(x, y, z int64) dynalimit.Amounts {
		out := dynalimit.Amounts{}
		for name, n := range map[string]int64{"x": x, "y": y, "z": z} {
			if n != 0 {
				out[name] = n
			}
		}
		return out
	}
	also := func(n ...dynalimit.Amounts) (opts []dynalimit.AcquireOption) {
		for _, one := range n {
			opts = append(opts, dynalimit.WithAlso(pool, one))
		}
		return opts
	}
	type step struct {
		do   func(*dynalimit.Lease) error
		used used
	}
	settle := func(to dynalimit.Amounts, is used) step {
		return step{func(l *dynalimit.Lease) error { return l.Settle(t.Context(), to) }, is}
	}
	adjust := func(by dynalimit.Amounts, is used) step {
		return step{func(l *dynalimit.Lease) error { return l.Adjust(t.Context(), by) }, is}
	}
	consume := func(more dynalimit.Amounts, is used) step {
		return step{func(l *dynalimit.Lease) error { return l.Consume(t.Context(), more) }, is}
	}
	rollback := step{func(l *dynalimit.Lease) error { return l.Rollback(t.Context()) }, used{}}
	for name, test := range map[string]struct {
		asked, also []dynalimit.Amounts
		grouped     bool
		took        used
		then        []step
	}{
		"the same amounts":                       {[]dynalimit.Amounts{a(5, 0, 0)}, []dynalimit.Amounts{a(5, 0, 0)}, false, used{5, 0, 5, 0, 0}, []step{settle(a(3, 0, 0), used{3, 0, 3, 0, 0})}},
		"others":                                 {[]dynalimit.Amounts{a(5, 0, 0)}, []dynalimit.Amounts{a(8, 0, 0)}, false, used{5, 0, 8, 0, 0}, []step{adjust(a(-2, 0, 0), used{3, 0, 6, 0, 0}), consume(a(10, 0, 0), used{13, 0, 16, 0, 0}), rollback}},
		"others, settled":                        {[]dynalimit.Amounts{a(5, 0, 0)}, []dynalimit.Amounts{a(8, 0, 0)}, false, used{5, 0, 8, 0, 0}, []step{settle(a(3, 0, 0), used{3, 0, 6, 0, 0})}},
		"a limit that nobody named":              {[]dynalimit.Amounts{a(5, 0, 0)}, []dynalimit.Amounts{a(1, 0, 0)}, false, used{5, 0, 1, 0, 0}, []step{adjust(a(0, 7, 0), used{5, 7, 1, 0, 0}), rollback}},
		"fewer":                                  {[]dynalimit.Amounts{a(5, 0, 0)}, []dynalimit.Amounts{a(2, 0, 0)}, false, used{5, 0, 2, 0, 0}, []step{adjust(a(-4, 0, 0), used{1, 0, 0, 0, 0}), adjust(a(4, 0, 0), used{5, 0, 2, 0, 0}), adjust(a(-4, 0, 0), used{1, 0, 0, 0, 0}), consume(a(4, 0, 0), used{5, 0, 2, 0, 0}), settle(a(0, 0, 0), used{5, 0, 2, 0, 0})}},
		"nothing is used, and then some":         {[]dynalimit.Amounts{a(5, 0, 0)}, []dynalimit.Amounts{a(8, 0, 0)}, false, used{5, 0, 8, 0, 0}, []step{adjust(a(-5, 0, 0), used{}), consume(a(1, 0, 0), used{1, 0, 4, 0, 0})}},
		"nothing is used":                        {[]dynalimit.Amounts{a(5, 0, 0)}, []dynalimit.Amounts{a(8, 0, 0)}, false, used{5, 0, 8, 0, 0}, []step{settle(dynalimit.Amounts{"x": 0}, used{})}},
		"a limit of its own":                     {[]dynalimit.Amounts{a(5, 0, 0)}, []dynalimit.Amounts{a(0, 0, 3)}, false, used{5, 0, 0, 0, 3}, []step{adjust(a(1, 0, 4), used{6, 0, 0, 0, 7}), consume(a(1, 0, 1), used{7, 0, 0, 0, 8}), settle(a(2, 0, 2), used{2, 0, 0, 0, 2})}},
		"a limit of both, not asked of the call": {[]dynalimit.Amounts{a(5, 0, 0)}, []dynalimit.Amounts{a(0, 4, 0)}, false, used{5, 0, 0, 4, 0}, []step{settle(a(5, 3, 0), used{5, 0, 0, 3, 0})}},
		"what it does not name is not charged":   {[]dynalimit.Amounts{a(5, 6, 0)}, []dynalimit.Amounts{a(1, 0, 0)}, false, used{5, 6, 1, 0, 0}, []step{adjust(a(0, 10, 0), used{5, 16, 1, 0, 0}), rollback}},
		"twice, and of a group anyway":           {[]dynalimit.Amounts{a(5, 6, 0)}, []dynalimit.Amounts{a(1, 0, 0), a(1, 0, 2)}, true, used{5, 6, 7, 6, 2}, []step{adjust(a(1, 1, 1), used{6, 7, 8, 7, 3}), settle(a(1, 1, 1), used{1, 1, 3, 1, 1})}},
	} {
		t.Run(name, func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				s := pooled(t, e, test.grouped)
				is := func(u used) {
					t.Helper()
					on := func(resource, limit string) int64 { return 1000 - s.levelOn("key", resource, limit) }
					assert.Equal(t, u, used{on(model, "x"), on(model, "y"), on(pool, "x"), on(pool, "y"), on(pool, "z")})
				}
				report, err := s.limiter.Check(t.Context(), "key", model, test.asked[0], also(test.also...)...)
				require.NoError(t, err)
				asked := map[string]int64{}
				for _, st := range report.Statuses {
					asked[st.Resource+" "+st.Limit.Name] = st.Requested
				}
				assert.Equal(t, test.took, used{asked["gpt-4 x"], asked["gpt-4 y"], asked["pool x"], asked["pool y"], asked["pool z"]}, "as Check says")
				lease := s.acquire("key", test.asked[0], also(test.also...)...)
				is(test.took)
				for _, step := range test.then {
					require.NoError(t, step.do(lease))
					is(step.used)
				}
			})
		})
	}
}

// A denial by what WithAlso names takes nothing; its parents are charged, too.
func TestAlsoDeniesAndCascades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.family("key", "team")
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("x", 100))
		s.limits(admin.Scope{Entity: "team", Resource: pool}, dynalimit.PerDay("x", 10))
		s.acquire("key", dynalimit.Amounts{"x": 20}, dynalimit.WithAlso(pool, dynalimit.Amounts{"x": 7}))
		assert.EqualValues(t, 3, s.levelOn("team", pool, "x"))
		assert.Nil(t, s.itemOn("key", pool), "nothing limits the key there")
		exceeded := s.deny("key", dynalimit.Amounts{"x": 20}, dynalimit.WithAlso(pool, dynalimit.Amounts{"x": 4}))
		assert.Equal(t, pool, exceeded.Primary().Resource)
		assert.EqualValues(t, 80, s.levelOn("key", model, "x"))
		assert.EqualValues(t, 80, s.levelOn("team", model, "x"))
	})
}

// Bad input of WithAlso is refused by name before anything is written: also a limit that only
// another bucket of the call has.
func TestAlsoIsChecked(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := pooled(t, e, false)
		for name, test := range map[string]struct {
			field string
			opts  []dynalimit.AcquireOption
		}{
			"no resource": {"WithAlso", []dynalimit.AcquireOption{dynalimit.WithAlso("", dynalimit.Amounts{"x": 1})}},
			"the default": {"WithAlso", []dynalimit.AcquireOption{dynalimit.WithAlso("_default_", dynalimit.Amounts{"x": 1})}},
			"its own":     {"WithAlso", []dynalimit.AcquireOption{dynalimit.WithAlso(model, dynalimit.Amounts{"x": 1})}},
			"no amounts":  {"WithAlso(pool).amounts", []dynalimit.AcquireOption{dynalimit.WithAlso(pool, nil)}},
			"negative":    {"WithAlso(pool).amounts[x]", []dynalimit.AcquireOption{dynalimit.WithAlso(pool, dynalimit.Amounts{"x": -1})}},
			"too many":    {"WithAlso(pool).amounts[x]", []dynalimit.AcquireOption{dynalimit.WithAlso(pool, dynalimit.Amounts{"x": 1e12}), dynalimit.WithAlso(pool, dynalimit.Amounts{"x": 1})}},
			"no limit":    {"amounts[q]", []dynalimit.AcquireOption{dynalimit.WithAlso(pool, dynalimit.Amounts{"q": 1})}},
			"no limits":   {"amounts[x]", []dynalimit.AcquireOption{dynalimit.WithAlso("nothing", dynalimit.Amounts{"x": 1})}},
			"not ignored": {"amounts[z]", []dynalimit.AcquireOption{dynalimit.WithAlso("other", dynalimit.Amounts{"z": 1})}},
		} {
			t.Log(name)
			_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"x": 1}, test.opts...)
			requireInvalid(t, err, test.field)
		}
		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"x": 1, "z": 1}, dynalimit.WithAlso(pool, dynalimit.Amounts{"x": 1}))
		requireInvalid(t, err, "amounts[z]") // a limit of the other resource, which is not named there
		assert.Nil(t, s.item("key"))
		lease := s.acquire("key", dynalimit.Amounts{"x": 1}, dynalimit.WithAlso("nothing", dynalimit.Amounts{"x": 1}), dynalimit.WithIgnoreUnknown())
		assert.Len(t, lease.Statuses(), 1, "no level has it, and the call said that this may be")
		lease = s.acquire("key", dynalimit.Amounts{"x": 1}, dynalimit.WithAlso(pool, dynalimit.Amounts{"x": 1}))
		requireInvalid(t, lease.Adjust(t.Context(), dynalimit.Amounts{"z": 1}), "amounts[z]")
		requireInvalid(t, lease.Consume(t.Context(), dynalimit.Amounts{"z": 1}), "amounts[z]")
	})
}

// Buckets that do not fit into one transaction are charged side by side.
func TestMoreBucketsThanATransactionHolds(t *testing.T) {
	s := memProcess(t, together())
	s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("x", 10))
	var opts []dynalimit.AcquireOption
	for i := range 100 {
		r := fmt.Sprint(pool, i)
		s.limits(admin.Scope{Everyone: true, Resource: r}, dynalimit.PerDay("x", 10))
		opts = append(opts, dynalimit.WithAlso(r, dynalimit.Amounts{"x": 1}))
	}
	lease := s.acquire("key", dynalimit.Amounts{"x": 1}, opts...)
	assert.Len(t, lease.Statuses(), 101)
	assert.EqualValues(t, 9, s.levelOn("key", pool+"99", "x"))
	lease = s.acquire("key", dynalimit.Amounts{"x": 1}, opts[:99]...)
	assert.Len(t, lease.Statuses(), 100, "in one transaction")
}

// Where nothing limits the call's own resource, or several others have a limit that the call does
// not ask of its own, the lease holds what the call named, or the most that it named elsewhere.
func TestLeaseHoldsWhatTheCallNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		for _, r := range []string{pool, "other"} {
			s.limits(admin.Scope{Everyone: true, Resource: r}, dynalimit.PerDay("x", 100), dynalimit.PerDay("z", 100))
		}
		lease := s.acquire("key", dynalimit.Amounts{"x": 5}, dynalimit.WithAlso(pool, dynalimit.Amounts{"x": 8}))
		assert.Equal(t, dynalimit.Amounts{"x": 5}, lease.Consumed())
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"x": 3}))
		assert.EqualValues(t, 100-6, s.levelOn("key", pool, "x"))

		lease = s.acquire("key", dynalimit.Amounts{"x": 1}, dynalimit.WithAlso(pool, dynalimit.Amounts{"x": 1, "z": 5}), dynalimit.WithAlso("other", dynalimit.Amounts{"z": 3}))
		assert.Equal(t, dynalimit.Amounts{"x": 1, "z": 5}, lease.Consumed())
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"z": 4}))
		assert.EqualValues(t, 100-4, s.levelOn("key", pool, "z"))
		assert.EqualValues(t, 100-2, s.levelOn("key", "other", "z"))
	})
}
