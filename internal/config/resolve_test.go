package config

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// said is what one source says, in the words of the table of precedence.
type said struct {
	names, lifts                []string
	unlimited, blocked, extends bool
	except, admit, counted      bool
	policy                      string
}

func (s *said) item() schema.Item {
	if s == nil {
		return nil
	}
	c := schema.ConfigItem{Version: 1, Unlimited: s.unlimited, Counted: s.counted, Blocked: s.blocked, OnUnavailable: s.policy, Extends: s.extends, Lifted: s.lifts, BlockedExcept: s.except, Admit: s.admit}
	for _, name := range s.names {
		c.Limits = append(c.Limits, schema.ConfigLimit{Name: name, Capacity: 1, Burst: 1, RefillAmount: 1, RefillPeriod: time.Minute})
	}
	return c.Item(schema.Keys{}, schema.ConfigOwner{}, nil)
}

// order is the table of precedence, the most specific source first.
var order = []sources.Source{"entity", "entity_default", "plan", "plan_default", "resource", "system"}

func itemsOf(by map[sources.Source]*said) Items {
	return Items{
		Entity: by["entity"].item(), EntityDefault: by["entity_default"].item(),
		Plan: by["plan"].item(), PlanDefault: by["plan_default"].item(),
		Resource: by["resource"].item(), System: by["system"].item(),
	}
}

// model is what the sources mean, read off the table one question at a time: for each name the most
// specific source on the walk that speaks of it decides.
func model(by map[sources.Source]*said) (v Verdict) {
	var walk, past []sources.Source
	ended, unlimited := false, false
	shadowed := map[sources.Source]bool{} // behind a source that is counted
	for _, source := range order {
		l := by[source]
		list := l != nil && len(l.names)+len(l.lifts) > 0
		shadowed[source] = v.Counted != ""
		switch {
		case ended:
			past = append(past, source)
		case list:
			walk, ended = append(walk, source), !l.extends
		case l != nil && l.unlimited:
			ended, unlimited = !l.counted, true
			if v.Source == "" && len(walk) == 0 {
				v.Source, v.Unlimited = source, true
			}
			if l.counted && v.Counted == "" {
				v.Counted = source
			}
		}
	}
	if len(walk) > 0 && v.Source == "" {
		v.Source = walk[0]
	}
	for _, name := range []string{"rpm", "tpd", "tpm"} {
		spoken := false
		for _, source := range walk {
			switch l := by[source]; {
			case spoken:
			case slices.Contains(l.names, name):
				spoken = true
				v.Limits = append(v.Limits, Limit{schema.ConfigLimit{Name: name, Capacity: 1, Burst: 1, RefillAmount: 1, RefillPeriod: time.Minute, Shadow: shadowed[source]}, source, shadowed[source]})
			case slices.Contains(l.lifts, name):
				spoken = true
				v.Lifted = append(v.Lifted, Hidden{name, source})
			}
		}
	}
	v.Unlimited = v.Unlimited || len(v.Limits) == 0 && (unlimited || len(walk) > 0)
	for _, source := range past {
		if l := by[source]; l != nil {
			for _, name := range l.names {
				inList := func(h Hidden) bool { return h.Name == name }
				if !slices.ContainsFunc(v.Limits, func(l Limit) bool { return l.Name == name }) && !slices.ContainsFunc(v.Lifted, inList) && !slices.ContainsFunc(v.Hidden, inList) {
					v.Hidden = append(v.Hidden, Hidden{name, source})
				}
			}
		}
	}
	for i := len(order) - 1; i >= 0; i-- { // the last one to say it is the most specific
		l := by[order[i]]
		admits := slices.IndexFunc(order[:i], func(more sources.Source) bool { return by[more] != nil && by[more].admit })
		if l != nil && (l.blocked || l.except && admits < 0) {
			v.Blocked = order[i]
		}
		if l != nil && l.except && admits >= 0 {
			v.Admitted = order[admits]
		}
		if l != nil && (l.policy == "allow" || l.policy == "block" || l.policy == "local") {
			v.Policy, v.PolicySource = l.policy, order[i]
		}
	}
	if l := by["system"]; l != nil && l.policy != "later" {
		v.SystemPolicy = l.policy
	}
	return v
}

func TestResolveIsTheTableOfPrecedence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		by := map[sources.Source]*said{}
		for _, source := range order {
			if !rapid.Bool().Draw(t, string(source)) {
				continue
			}
			l := &said{
				unlimited: rapid.IntRange(0, 3).Draw(t, "unlimited") == 0,
				blocked:   rapid.IntRange(0, 5).Draw(t, "blocked") == 0,
				except:    rapid.IntRange(0, 2).Draw(t, "except") == 0,
				admit:     rapid.IntRange(0, 2).Draw(t, "admit") == 0,
				policy:    rapid.SampledFrom([]string{"", "", "allow", "block", "local", "later"}).Draw(t, "policy"),
			}
			l.counted = l.unlimited && rapid.Bool().Draw(t, "counted")
			l.extends = source != sources.System && rapid.Bool().Draw(t, "extends")
			for _, name := range []string{"rpm", "tpd", "tpm"} {
				switch rapid.IntRange(0, 8).Draw(t, name) {
				case 0, 1, 2:
					l.names = append(l.names, name)
				case 3:
					if l.extends {
						l.lifts = append(l.lifts, name)
					}
				}
			}
			by[source] = l
		}
		got, err := Resolve(itemsOf(by))
		require.NoError(t, err)
		assert.Equal(t, model(by), got)
	})
}

func TestResolveExamples(t *testing.T) {
	rpm := &said{names: []string{"rpm"}}
	for _, test := range []struct {
		name   string
		stored map[sources.Source]*said
		want   Verdict
	}{
		{"nothing", nil, Verdict{}},
		{
			"a plan before the resource",
			map[sources.Source]*said{sources.Plan: rpm, sources.Resource: {names: []string{"tpm"}}},
			Verdict{Source: sources.Plan, Hidden: []Hidden{{"tpm", sources.Resource}}},
		},
		{
			"a plan's default hides the resource's limits",
			map[sources.Source]*said{sources.PlanDefault: rpm, sources.Resource: {names: []string{"rpm", "tpm"}}, sources.System: {names: []string{"tpm"}}},
			Verdict{Source: sources.PlanDefault, Hidden: []Hidden{{"tpm", sources.Resource}}},
		},
		{
			"an unlimited entity",
			map[sources.Source]*said{sources.EntityDefault: {unlimited: true}, sources.System: rpm},
			Verdict{Source: sources.EntityDefault, Unlimited: true, Hidden: []Hidden{{"rpm", sources.System}}},
		},
		{
			"a block does not end the walk",
			map[sources.Source]*said{sources.EntityDefault: {names: []string{"rpm"}, extends: true}, sources.Resource: {names: []string{"tpm"}, blocked: true, extends: true}, sources.System: rpm},
			Verdict{Source: sources.EntityDefault, Blocked: sources.Resource},
		},
		{
			"every limit is lifted by name",
			map[sources.Source]*said{sources.Entity: {lifts: []string{"rpm"}, extends: true}, sources.System: rpm},
			Verdict{Source: sources.Entity, Unlimited: true, Lifted: []Hidden{{"rpm", sources.Entity}}},
		},
		{"limits beside the mark count", map[sources.Source]*said{sources.Entity: {unlimited: true, names: []string{"rpm"}}}, Verdict{Source: sources.Entity}},
		{"unlimited further down", map[sources.Source]*said{sources.Entity: rpm, sources.System: {unlimited: true}}, Verdict{Source: sources.Entity}},
		{
			"a block below an unlimited source",
			map[sources.Source]*said{sources.Entity: {unlimited: true}, sources.System: {blocked: true}},
			Verdict{Source: sources.Entity, Unlimited: true, Blocked: sources.System},
		},
		{"the most specific block", map[sources.Source]*said{sources.Plan: {blocked: true}, sources.Resource: {blocked: true}}, Verdict{Blocked: sources.Plan}},
		{
			"a policy without limits",
			map[sources.Source]*said{sources.Entity: {policy: "local"}, sources.System: {policy: "allow"}},
			Verdict{Policy: "local", PolicySource: sources.Entity, SystemPolicy: "allow"},
		},
		{
			"a policy that nobody knows",
			map[sources.Source]*said{sources.Entity: {policy: "later"}, sources.System: {policy: "allow"}},
			Verdict{Policy: "allow", PolicySource: sources.System, SystemPolicy: "allow"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Resolve(itemsOf(test.stored))
			require.NoError(t, err)
			got.Limits = nil
			assert.Equal(t, test.want, got)
		})
	}
}

func TestResolveRefusesWhatItCannotRead(t *testing.T) {
	good, half := (&said{names: []string{"rpm"}}).item(), schema.Item{"l_rpm_cp": schema.Number(1)}
	_, err := Resolve(Items{Plan: half, System: good})
	var wrong *Malformed
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, sources.Plan, wrong.Source)
	assert.ErrorContains(t, errors.Unwrap(err), "l_rpm_rp")
	_, err = Resolve(Items{Plan: good, System: half})
	require.NoError(t, err, "what does not count does no harm")
	_, err = Resolve(Items{Plan: good, System: schema.Item{"blocked": schema.String("yes")}})
	require.ErrorAs(t, err, &wrong, "it may be a block")
	assert.Equal(t, sources.System, wrong.Source)
	_, err = Resolve(Items{Plan: good, System: schema.Item{"blocked": &types.AttributeValueMemberNULL{Value: true}}})
	require.NoError(t, err)
}

func TestTextsOfEverySource(t *testing.T) {
	for _, won := range append([]sources.Source{sources.Override, sources.Options}, order...) {
		unknown, _ := UnknownReason(won)
		assert.Contains(t, unknown, "add the limit", won)
		if won != sources.Override {
			assert.Contains(t, unknown, "source "+string(won))
		}
		hidden, _ := HiddenReason(sources.Entity, won)
		assert.Contains(t, hidden, "source "+string(won))
	}
	_, fix := UnknownReason(sources.Plan)
	assert.Equal(t, fault.SetPlanLimits, fix)
	hidden, fix := HiddenReason(sources.PlanDefault, sources.System)
	assert.Equal(t, fault.SetPlanLimits, fix)
	assert.Contains(t, hidden, "the plan's default list (source plan_default) won and hides the system's list (source system)")
	assert.True(t, sources.Plan.OfPlan() && sources.PlanDefault.OfPlan() && !sources.Entity.OfPlan())
}
