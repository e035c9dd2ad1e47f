package dynalimit_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// TestBlockWithExceptions: a more specific source that admits lifts a block with exceptions, and no
// other one. Blocks of the resource and the system are decided once, for the entity that calls; a
// parent has exceptions of its own, and a group those that are made for it.
func TestBlockWithExceptions(t *testing.T) {
	type says = map[schema.ConfigOwner]schema.ConfigItem
	except, admit := schema.ConfigItem{BlockedExcept: true}, schema.ConfigItem{Admit: true}
	org, orgHere := schema.ConfigOwner{Entity: "org"}, schema.ConfigOwner{Entity: "org", Resource: model}
	grouped := schema.ConfigItem{Groups: []string{group}}
	ofGroup, hereOfGroup, planOfGroup := schema.ConfigOwner{Resource: group}, schema.ConfigOwner{Entity: "user-1", Resource: group}, schema.ConfigOwner{Plan: "pro", Resource: group}
	for name, test := range map[string]struct {
		says           says
		by, of, onlyOn string // the source that blocks, whose, and of which group
	}{
		"nobody is an exception":                    {says: says{ofResource: except}, by: "resource"},
		"the entity is one":                         {says: says{ofResource: except, ofEntity: admit}},
		"its plan is one":                           {says: says{ofSystem: except, ofPlanDefault: admit}},
		"a less specific source is none":            {says: says{ofPlan: except, ofResource: admit}, by: "plan"},
		"the source itself is none":                 {says: says{ofPlan: {BlockedExcept: true, Admit: true}}, by: "plan"},
		"a block lifted by nothing":                 {says: says{ofResource: blocked, ofEntity: admit}, by: "resource"},
		"one behind a block with exceptions":        {says: says{ofResource: except, ofSystem: blocked, ofEntity: admit}, by: "system"},
		"the most specific mark decides":            {says: says{ofEntityDefault: except, ofPlan: admit, ofSystem: except}, by: "entity_default"},
		"the parent decides nothing of a resource":  {says: says{ofResource: except, ofEntity: admit, org: limited(dynalimit.Amounts{"rpm": 9})}},
		"the parent's own block":                    {says: says{org: except, ofEntity: admit}, by: "entity_default", of: "org"},
		"the parent's own block, before resource's": {says: says{org: except, ofResource: except, ofEntity: admit}, by: "entity_default", of: "org"},
		"the parent's own exception":                {says: says{org: except, orgHere: admit}},
		"a group":                                   {says: says{ofResource: grouped, ofGroup: except}, by: "resource", onlyOn: group},
		"a group, of a default that admits":         {says: says{ofResource: grouped, ofGroup: except, ofEntityDefault: admit, ofPlanDefault: admit}, by: "resource", onlyOn: group},
		"a group, of the resource's exception":      {says: says{ofResource: grouped, ofGroup: except, ofEntity: admit}, by: "resource", onlyOn: group},
		"a group's exception":                       {says: says{ofResource: grouped, ofGroup: except, hereOfGroup: admit}},
		"a group's exception of the plan":           {says: says{ofResource: grouped, ofGroup: except, planOfGroup: admit}},
	} {
		for _, cascade := range []bool{false, true} {
			t.Run(fmt.Sprint(name, cascade), func(t *testing.T) {
				s := memProcess(t, perMinute())
				s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro", ParentID: "org", Cascade: cascade})
				for owner, c := range test.says {
					s.says(owner, c)
				}
				report, err := s.limiter.Check(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
				require.NoError(t, err)
				resolved, err := s.repo.ResolveLimits(t.Context(), "user-1", model)
				require.NoError(t, err)
				_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
				if test.by == "" {
					require.NoError(t, err)
					assert.Nil(t, report.Blocked)
					assert.Empty(t, resolved.Blocked)
					return
				}
				var b *dynalimit.BlockedError
				require.ErrorAs(t, err, &b)
				assert.Equal(t, b, report.Blocked)
				want := dynalimit.BlockedError{EntityID: "user-1", Resource: model, Source: sources.Source(test.by)}
				if test.of != "" {
					want.EntityID = test.of
				}
				if test.onlyOn != "" {
					want.Resource = test.onlyOn
				}
				if want.Source.OfPlan() {
					want.Plan = "pro"
				}
				assert.Equal(t, want, *b)
			})
		}
	}
}
