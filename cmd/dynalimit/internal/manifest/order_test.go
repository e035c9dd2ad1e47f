package manifest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
)

// admits is what an entity may use of rpm in a minute: nothing if it is blocked, and
// everything where nothing limits it.
func (w *world) admits(t *testing.T, id, resource string) int64 {
	t.Helper()
	r := must(w.repo.ResolveLimits(t.Context(), id, resource))
	switch {
	case r.Blocked != "":
		return 0
	case len(r.Limits) == 0:
		return math.MaxInt64
	}
	return r.Limits[0].Capacity
}

// oneAtATime applies a plan change by change; each time look is told what was done last.
func (w *world) oneAtATime(t *testing.T, p Plan, look func(done string)) {
	t.Helper()
	for _, line := range lines(p) {
		require.NotContains(t, line, "refuse")
	}
	for i, c := range p.Changes {
		out, err := Apply(t.Context(), Of(admin.New(w.repo)), Plan{Name: p.Name, Changes: p.Changes[i : i+1]}, func(int, int) {})
		require.NoError(t, err)
		require.Empty(t, out.Failed)
		look(c.What())
	}
}

// Wherever an apply is cut, nobody is admitted more than before and than in the end.
func TestNoCutOfAnApplyAdmitsMore(t *testing.T) {
	for name, test := range map[string]struct{ before, after string }{
		"a plan is raised while an entity leaves it": {
			"plans: {a: {default: {limits: {rpm: 10}}}, b: {default: {limits: {rpm: 20}}}}\nentities: {x: {plan: a}}",
			"plans: {a: {default: {limits: {rpm: 900}}}, b: {default: {limits: {rpm: 5}}}}\nentities: {x: {plan: b}}",
		},
		"a block is lifted while an entity leaves it for another": {
			"system: {limits: {rpm: 100}}\nplans: {jail: {default: {blocked: true}}}\nentities: {x: {plan: jail}}",
			"system: {limits: {rpm: 100}}\nplans: {jail: {default: {limits: {rpm: 50}}}, cell: {default: {blocked: true}}}\nentities: {x: {plan: cell}}",
		},
		"levels go that hide each other": {
			"system: {limits: {rpm: 5}}\nresources: {gpt-4: {limits: {rpm: 700}}}\nplans: {a: {default: {limits: {rpm: 900}}}}\nentities: {x: {plan: a, default: {limits: {rpm: 10}}}}",
			"system: {limits: {rpm: 5}}\nentities: {x: {}}",
		},
		"a resource gets more than everybody, and an entity a small plan": {
			"system: {limits: {rpm: 10}}\nplans: {small: {default: {limits: {rpm: 5}}}}\nentities: {x: {}}",
			"system: {limits: {rpm: 10}}\nresources: {gpt-4: {limits: {rpm: 900}}}\nplans: {small: {default: {limits: {rpm: 5}}}}\nentities: {x: {plan: small}}",
		},
		"a plan gets a level while an entity of it gets a smaller one": {
			"system: {limits: {rpm: 24}}\nplans: {free: {resources: {other: {limits: {rpm: 5}}}}}\nentities: {x: {plan: free}}",
			"system: {limits: {rpm: 24}}\nplans: {free: {resources: {other: {limits: {rpm: 5}}, gpt-4: {limits: {rpm: 36}}}}}\nentities: {x: {plan: free, default: {limits: {rpm: 15}}}}",
		},
		"an entity gets limits of its own with a plan that is larger": {
			"plans: {a: {default: {limits: {rpm: 5}}}, b: {default: {limits: {rpm: 900}}}}\nentities: {x: {plan: a}}",
			"plans: {a: {default: {limits: {rpm: 5}}}, b: {default: {limits: {rpm: 900}}}}\nentities: {x: {plan: b, default: {limits: {rpm: 10}}}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.apply(t, test.before, Options{})
			before := w.admits(t, "x", "gpt-4")
			p := w.plan(t, parsed(t, test.after), Options{LiftBlocks: true})
			after := newWorld(t, "")
			after.apply(t, test.after, Options{})
			most := max(before, after.admits(t, "x", "gpt-4"))
			w.oneAtATime(t, p, func(done string) { assert.LessOrEqual(t, w.admits(t, "x", "gpt-4"), most, "after %s", done) })
			w.settled(t, parsed(t, test.after), Options{LiftBlocks: true})
		})
	}
}

// An entity that takes its parent's limits on is charged there before its own grow.
func TestAnEntityIsChargedToItsParentBeforeItsLimitsGrow(t *testing.T) {
	const format = "entities: {p: {default: {limits: {rpm: 10}}}, x: {parent: p, cascade: %v, default: {limits: {rpm: %d}}}}"
	w := newWorld(t, "")
	w.apply(t, fmt.Sprintf(format, false, 5), Options{})
	p := w.plan(t, parsed(t, fmt.Sprintf(format, true, 900)), Options{})
	assert.Equal(t, []string{"update record of entity x: cascade  -> true", "update limits of entity x: rpm.capacity 5 -> 900"}, lines(p))
}

// drawn is a manifest at random whose levels have one limit, or none, or are blocked. Plans
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
	level := func() string {
		if random.IntN(8) == 0 {
			return "{blocked: true}"
		}
		return open()
	}
	levels := func(names ...string) (out []string) {
		for _, name := range names {
			if random.IntN(2) == 0 {
				out = append(out, name+": "+level())
			}
		}
		return out
	}
	owned := func() []string {
		out := levels("default")
		if of := levels("gpt-4", "a/b"); len(of) > 0 {
			out = append(out, "resources: {"+strings.Join(of, ", ")+"}")
		}
		return out
	}
	b.WriteString("version: 1\nsystem: {limits: {rpm: " + fmt.Sprint(1+random.IntN(50)) + "}}\n")
	if of := levels("gpt-4", "a/b"); len(of) > 0 {
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
		Error: "stays as it is, because the record of entity x did not change as planned: apply again once that is right",
	})
	w.apply(t, after, Options{})
}
