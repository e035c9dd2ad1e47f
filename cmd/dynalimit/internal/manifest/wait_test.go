package manifest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

const deepChain = "  l1: {}\n  l2: {parent: l1}\n  l3: {parent: l2}\n  l4: {parent: l3}\n  l5: {parent: l4}\n  l6: {parent: l5}\n  l7: {parent: l6}\n"

// What limits an entity does not go before what is to limit it in its place is there, whoever
// changes something between the plan and the apply.
func TestNothingGoesWhoseReplacementFailed(t *testing.T) {
	const everybody = "system: {limits: {rpm: 900}}\n"
	const pro = everybody + "plans: {pro: {default: {limits: {rpm: 10}}}}\nentities:\n"
	byHand := func(at admin.Scope) func(*testing.T, *world) {
		return func(t *testing.T, w *world) {
			set(t, w.repo, at, admin.LimitConfig{OnUnavailable: dynalimit.Allow})
		}
	}
	for name, test := range map[string]struct {
		before, after string
		between       func(*testing.T, *world)
		most          int64
	}{
		"a record that somebody made": {
			pro + "  x: {default: {limits: {rpm: 5}}}", pro + "  x: {plan: pro}",
			func(t *testing.T, w *world) {
				require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), admin.Entity{ID: "x"}))
			}, 10,
		},
		"a record below a parent that was moved down": {
			pro + deepChain + "  deep: {}\n  x: {default: {limits: {rpm: 5}}}", pro + deepChain + "  deep: {}\n  x: {plan: pro, parent: deep}",
			func(t *testing.T, w *world) {
				deep := must(admin.New(w.repo).Entities.Get(t.Context(), "deep"))
				deep.ParentID = "l7"
				must(admin.New(w.repo).Entities.Update(t.Context(), deep))
			}, 10,
		},
		"a source of its own": {
			everybody + "entities: {x: {default: {limits: {rpm: 5}}}}", everybody + "entities: {x: {resources: {gpt-4: {limits: {rpm: 7}}}}}",
			byHand(admin.Scope{Entity: "x", Resource: "gpt-4"}), 7,
		},
		"a source of its plan": {
			everybody + "entities: {x: {plan: pro, default: {limits: {rpm: 5}}}}", pro + "  x: {plan: pro}",
			byHand(admin.Scope{Plan: "pro"}), 10,
		},
		"a source of the plan that it is put on": {
			everybody + "plans: {old: {default: {limits: {rpm: 5}}}}\nentities: {x: {plan: old}}",
			everybody + "plans: {old: {default: {limits: {rpm: 5}}}, pro: {default: {limits: {rpm: 7}}}}\nentities: {x: {plan: pro}}",
			byHand(admin.Scope{Plan: "pro"}), 7,
		},
		"a source of everybody": {
			everybody + "plans: {old: {default: {limits: {rpm: 5}}}}\nentities: {x: {plan: old}}", everybody + "resources: {gpt-4: {limits: {rpm: 7}}}\nentities: {x: {}}",
			byHand(admin.Scope{Everyone: true, Resource: "gpt-4"}), 7,
		},
		"a source of a group": {
			everybody + "resources: {gpt-4: {limits: {rpm: 5}, groups: [all]}, all: {limits: {rpm: 50}}}",
			everybody + "resources: {gpt-4: {limits: {rpm: 500}, groups: [all]}, all: {limits: {rpm: 20}}}",
			byHand(admin.Scope{Everyone: true, Resource: "all"}), 20,
		},
		"a source of an entity for a group": {
			everybody + "resources: {gpt-4: {groups: [all]}, all: {limits: {rpm: 50}}}\nplans: {pro: {default: {limits: {rpm: 90}}}}\nentities: {x: {plan: pro}}",
			everybody + "resources: {gpt-4: {groups: [all]}, other: {limits: {rpm: 1}}}\nplans: {pro: {default: {limits: {rpm: 80}}}}\nentities: {x: {plan: pro, resources: {all: {limits: {rpm: 40}}}}}",
			byHand(admin.Scope{Entity: "x", Resource: "all"}), 50,
		},
		"a record of who gets a plan with a limit for a group": {
			everybody + "resources: {gpt-4: {groups: [all]}, all: {limits: {rpm: 10}}}\nplans: {old: {default: {limits: {rpm: 90}}}}\nentities: {x: {plan: old}}",
			everybody + "resources: {gpt-4: {groups: [all]}}\nplans: {old: {default: {limits: {rpm: 90}}}, pro: {default: {limits: {rpm: 90}}, resources: {all: {limits: {rpm: 5}}}}}\nentities: {x: {plan: pro}}",
			func(t *testing.T, w *world) {
				x := must(admin.New(w.repo).Entities.Get(t.Context(), "x"))
				x.Name = "by hand"
				must(admin.New(w.repo).Entities.Update(t.Context(), x))
			}, 10,
		},
		"a resource in a group": {
			everybody + "resources: {gpt-4: {limits: {rpm: 100}, groups: [all]}, all: {limits: {rpm: 10}}}", everybody + "resources: {gpt-4: {limits: {rpm: 20}}}",
			func(t *testing.T, w *world) {
				l := rpm(100)
				l.Groups, l.OnUnavailable = []string{"all"}, dynalimit.Allow
				set(t, w.repo, admin.Scope{Everyone: true, Resource: "gpt-4"}, l)
			}, 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.apply(t, test.before, Options{})
			p := w.plan(t, parsed(t, test.after), Options{})
			require.Zero(t, p.Count(Refuse), lines(p))
			test.between(t, w)
			out, err := Apply(t.Context(), Of(admin.New(w.repo)), p, func(int, int) {})
			require.NoError(t, err)
			assert.LessOrEqual(t, w.admits(t, "x", "gpt-4"), test.most, "%+v", out)
			require.GreaterOrEqual(t, len(out.Failed), 2)
			assert.Equal(t, "stays as it is, because the "+out.Failed[0].What+" did not change as planned: correct that, then apply again", out.Failed[1].Error)
			assert.Zero(t, out.Left)
		})
	}
}

// A record that is to be made below one that moves up in the same apply is made after that.
func TestARecordIsMadeBelowOneThatMoves(t *testing.T) {
	const head = "system: {limits: {rpm: 900}}\nplans: {pro: {default: {limits: {rpm: 10}}}}\nentities:\n" + deepChain
	w := newWorld(t, "")
	w.apply(t, head+"  l8: {parent: l7}\n  x: {default: {limits: {rpm: 5}}}", Options{})
	w.apply(t, head+"  l8: {}\n  x: {plan: pro, parent: l8}", Options{})
	assert.EqualValues(t, 10, w.admits(t, "x", "gpt-4"))
}
