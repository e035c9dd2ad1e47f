package manifest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
)

// TestRefuseLosses: a plan that takes limits out of force unsaid is refused at sources whose lists
// hide them, and wherever they are money. It warns of the others, such as those of a deleted source.
func TestRefuseLosses(t *testing.T) {
	const (
		pro    = `pro: {default: {limits: {rpm: 5, usd: {capacity: "$5", unit: usd, window: day, zone: UTC, per_model: true}}}}`
		stored = "version: 2\nsystem: {limits: {tpm: 10}}\nresources:\n  gpt-4: {groups: [all]}\n  all: {limits: {usd: {capacity: 5, unit: usd, window: day, zone: UTC}}}\nplans:\n  " + pro + "\n  free: {default: {limits: {rpm: 1}}}\nentities:\n  eve: {parent: acme}\n  acme: {plan: pro}\n  bob: {plan: free}\n  cid: {}\n"
		usd    = "usd of source plan_default for entity acme"
	)
	for name, test := range map[string]struct {
		old, new         string
		refused, warning []string
	}{
		"a list that hides money":              {"acme: {plan: pro", "acme: {plan: pro, default: {limits: {rpm: 9}}", []string{usd}, nil},
		"a list that says so":                  {"acme: {plan: pro", "acme: {plan: pro, default: {limits: {rpm: 9}, only: true}", nil, nil},
		"a list that extends":                  {"acme: {plan: pro", "acme: {plan: pro, default: {limits: {rpm: 9}, extends: true}", nil, nil},
		"a list that hides another limit":      {"bob: {plan: free", "bob: {plan: free, default: {limits: {img: 9}}", []string{"rpm of source plan_default for entity bob"}, nil},
		"money that is lifted by name":         {"acme: {plan: pro", "acme: {plan: pro, default: {extends: true, lifted: [usd]}", []string{"usd for entity acme"}, nil},
		"an unlimited entity":                  {"bob: {plan: free", "bob: {plan: free, default: {unlimited: true}", nil, []string{"rpm of source plan_default for entity bob"}},
		"an unlimited entity with money":       {"acme: {plan: pro", "acme: {plan: pro, default: {unlimited: true}", []string{usd}, []string{"rpm of source plan_default for entity acme"}},
		"a source that is deleted":             {"\n  " + pro, "", []string{"usd for plan pro"}, nil},
		"a plan that hides, and an addition":   {"cid: {}", "cid: {plan: free, default: {limits: {img: 9}, extends: true}}", nil, []string{"tpm of source system for entity cid"}},
		"another plan":                         {"acme: {plan: pro", "acme: {plan: free", []string{"usd for entity acme"}, nil},
		"another plan, and a list that says":   {"acme: {plan: pro", "acme: {plan: free, default: {limits: {rpm: 9}, only: true}", nil, nil},
		"another plan, and a record that says": {"acme: {plan: pro", "acme: {plan: free, only: true", nil, nil},
		"no parent":                            {"eve: {parent: acme}", "eve: {}", []string{"usd of parent acme for entity eve"}, nil},
		"a resource that leaves its group":     {"groups: [all]", "groups: [small]", []string{"usd of group all for resource gpt-4"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.apply(t, stored, Options{})
			require.Contains(t, stored, test.old)
			p := w.plan(t, parsed(t, strings.Replace(stored, test.old, test.new, 1)), Options{})
			require.NoError(t, RefuseLosses(t.Context(), Of(admin.New(w.repo)), &p, false))
			var refused []string
			for _, c := range p.Changes {
				if c.Action == Refuse {
					names, _, _ := strings.Cut(c.Note, " would no longer apply")
					refused = append(refused, names)
				}
			}
			assert.Equal(t, test.refused, refused)
			var warned []string
			for _, warning := range p.Warnings {
				if lost, ok := strings.CutSuffix(warning, " would no longer apply"); ok {
					warned = append(warned, lost)
				}
			}
			assert.Equal(t, test.warning, warned)
		})
	}
}
