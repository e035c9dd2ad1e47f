package manifest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// admits is what an entity may use of rpm in a minute, of the groups of a resource too: nothing
// if it is blocked, and everything where nothing limits it.
func (w *world) admits(t *testing.T, id, resource string) int64 {
	t.Helper()
	r := must(w.repo.ResolveLimits(t.Context(), id, resource))
	least := int64(math.MaxInt64)
	for _, r := range append(r.Groups, r) {
		switch {
		case r.Blocked != "":
			return 0
		case len(r.Limits) > 0:
			least = min(least, r.Limits[0].Capacity)
		}
	}
	return least
}

// An entity that takes its parent's limits on is charged there before its own grow.
func TestAnEntityIsChargedToItsParentBeforeItsLimitsGrow(t *testing.T) {
	const format = "entities: {p: {default: {limits: {rpm: 10}}}, x: {parent: p, cascade: %v, default: {limits: {rpm: %d}}}}"
	w := newWorld(t, "")
	w.apply(t, fmt.Sprintf(format, false, 5), Options{})
	p := w.plan(t, parsed(t, fmt.Sprintf(format, true, 900)), Options{})
	assert.Equal(t, []string{"update record of entity x: cascade  -> true, detached true -> ", "update limits of entity x: rpm.capacity 5 -> 900"}, lines(p))
}

// A quota admits more or less than another of the same windows; one of other windows, or a
// bucket, is neither.
func TestWhichQuotasAdmitMore(t *testing.T) {
	is := dynalimit.DailyQuota("usd", 50, "")
	for _, test := range []struct {
		was        dynalimit.Limit
		more, less bool
	}{
		{was: is},
		{was: dynalimit.DailyQuota("usd", 40, ""), more: true},
		{was: dynalimit.DailyQuota("usd", 60, "Asia/Tokyo"), less: true},
		{was: dynalimit.WeeklyQuota("usd", 40, "")},
		{was: dynalimit.PerDay("usd", 60)},
	} {
		more, less := compareLimits(byName([]dynalimit.Limit{test.was}), byName([]dynalimit.Limit{is}))
		assert.Equal(t, []bool{test.more, test.less}, []bool{more, less}, "%+v", test)
	}
}

// drawn is a manifest at random whose sources have one limit, or none, or are blocked. Plans
// are not: who leaves a block behind and goes on with limits of its own that go later has
// those in between.
func drawn(random *rand.Rand) string {
	var b strings.Builder
	open := func() string {
		if random.IntN(8) == 0 {
			return "{unlimited: true}"
		}
		return fmt.Sprintf("{limits: {rpm: %d}}", 1+random.IntN(50))
	}
	source := func() string {
		if random.IntN(8) == 0 {
			return "{blocked: true}"
		}
		return open()
	}
	sources := func(names ...string) (out []string) {
		for _, name := range names {
			if random.IntN(2) == 0 {
				out = append(out, name+": "+source())
			}
		}
		return out
	}
	owned := func() []string {
		out := sources("default")
		if of := sources("gpt-4", "a/b"); len(of) > 0 {
			out = append(out, "resources: {"+strings.Join(of, ", ")+"}")
		}
		return out
	}
	b.WriteString("version: 1\nsystem: {limits: {rpm: " + fmt.Sprint(1+random.IntN(50)) + "}}\n")
	if of := sources("gpt-4", "a/b"); len(of) > 0 {
		b.WriteString("resources: {" + strings.Join(of, ", ") + "}\n")
	}
	plans := []string{"pro: {default: " + open() + "}", "free: {default: " + open() + "}"}
	b.WriteString("plans: {" + strings.Join(plans, ", ") + "}\n")
	b.WriteString("entities:\n")
	for _, id := range []string{"x", "y", "z"} {
		fields := append(owned(), "name: "+id)
		if random.IntN(3) > 0 {
			fields = append(fields, "plan: "+[]string{"pro", "free"}[random.IntN(2)])
		}
		fmt.Fprintf(&b, "  %s: {%s}\n", id, strings.Join(fields, ", "))
	}
	return b.String()
}

// A record that cannot be changed keeps what limits its entity.
func TestLimitsOfWhoCouldNotBeMovedStay(t *testing.T) {
	const before = "system: {limits: {rpm: 900}}\nplans: {small: {default: {limits: {rpm: 5}}}, raised: {default: {limits: {rpm: 6}}}, tiny: {default: {limits: {rpm: 1}}}}\n" +
		"entities: {x: {plan: small}, y: {plan: raised}, z: {plan: raised, default: {limits: {rpm: 7}}}, free: {plan: small}}"
	const after = "system: {limits: {rpm: 900}}\nplans: {raised: {default: {limits: {rpm: 800}}}, tiny: {default: {limits: {rpm: 1}}}}\n" +
		"entities: {x: {plan: tiny}, y: {plan: tiny}, z: {plan: tiny}, free: {plan: tiny}}"
	w := newWorld(t, "")
	w.apply(t, before, Options{})
	m := parsed(t, after)
	p := w.plan(t, m, Options{})
	for _, id := range []string{"x", "y", "z"} {
		e := must(admin.New(w.repo).Entities.Get(t.Context(), id))
		e.Name = "by hand"
		must(admin.New(w.repo).Entities.Update(t.Context(), e))
	}
	out, err := Apply(t.Context(), Of(admin.New(w.repo)), p, func(int, int) {})
	require.NoError(t, err)
	assert.Equal(t, []int64{5, 6, 7, 1}, []int64{w.admits(t, "x", "gpt-4"), w.admits(t, "y", "gpt-4"), w.admits(t, "z", "gpt-4"), w.admits(t, "free", "gpt-4")})
	assert.Equal(t, 1, out.Done)
	assert.Zero(t, out.Left)
	assert.Len(t, out.Failed, 6)
	assert.Equal(t, 6, out.Conflicts())
	assert.Contains(t, out.Failed, Failure{
		What: "limits of plan small", Conflict: true,
		Error: "stays as it is, because the record of entity x did not change as planned: correct that, then apply again",
	})
	w.apply(t, after, Options{})
}
