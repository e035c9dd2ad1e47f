package config

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// said is what one level says, in the words of the table of precedence.
type said struct {
	names              []string
	unlimited, blocked bool
	policy             string
}

func (s *said) item() schema.Item {
	if s == nil {
		return nil
	}
	c := schema.ConfigItem{Version: 1, Unlimited: s.unlimited, Blocked: s.blocked, OnUnavailable: s.policy}
	for _, name := range s.names {
		c.Limits = append(c.Limits, schema.ConfigLimit{Name: name, Capacity: 1, Burst: 1, Amount: 1, PeriodSeconds: 60})
	}
	return c.Item(schema.Keys{}, schema.ConfigOwner{}, nil)
}

// order is the table of precedence, the most specific level first.
var order = []Level{"entity", "entity_default", "plan", "plan_default", "resource", "system"}

func itemsOf(levels map[Level]*said) Items {
	return Items{
		Entity: levels["entity"].item(), EntityDefault: levels["entity_default"].item(),
		Plan: levels["plan"].item(), PlanDefault: levels["plan_default"].item(),
		Resource: levels["resource"].item(), System: levels["system"].item(),
	}
}

// model is what the levels mean, read off the table one question at a time.
func model(levels map[Level]*said) (v Verdict) {
	decided := func(l *said) bool { return l != nil && (len(l.names) > 0 || l.unlimited) }
	for _, level := range order {
		if l := levels[level]; v.Level == "" && decided(l) {
			v.Level, v.Unlimited = level, len(l.names) == 0
			for _, name := range l.names {
				v.Limits = append(v.Limits, schema.ConfigLimit{Name: name, Capacity: 1, Burst: 1, Amount: 1, PeriodSeconds: 60})
			}
		}
	}
	for i := len(order) - 1; i >= 0; i-- { // the last one to say it is the most specific
		l := levels[order[i]]
		if l != nil && l.blocked {
			v.Blocked = order[i]
		}
		if l != nil && (l.policy == "allow" || l.policy == "block" || l.policy == "local") {
			v.Policy, v.PolicyLevel = l.policy, order[i]
		}
	}
	if l := levels["system"]; l != nil && l.policy != "later" {
		v.SystemPolicy = l.policy
	}
	seen := map[string]bool{}
	past := false
	for _, level := range order {
		if l := levels[level]; l != nil {
			for _, name := range l.names {
				if past && !seen[name] {
					v.Hidden = append(v.Hidden, Hidden{name, level})
				}
				if past || level == v.Level {
					seen[name] = true
				}
			}
		}
		past = past || level == v.Level
	}
	return v
}

func TestResolveIsTheTableOfPrecedence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels := map[Level]*said{}
		for _, level := range order {
			if !rapid.Bool().Draw(t, string(level)) {
				continue
			}
			l := &said{
				unlimited: rapid.IntRange(0, 3).Draw(t, "unlimited") == 0,
				blocked:   rapid.IntRange(0, 5).Draw(t, "blocked") == 0,
				policy:    rapid.SampledFrom([]string{"", "", "allow", "block", "local", "later"}).Draw(t, "policy"),
			}
			for _, name := range []string{"rpm", "tpd", "tpm"} {
				if rapid.IntRange(0, 2).Draw(t, name) == 0 {
					l.names = append(l.names, name)
				}
			}
			levels[level] = l
		}
		got, err := Resolve(itemsOf(levels))
		require.NoError(t, err)
		assert.Equal(t, model(levels), got)
	})
}

func TestResolveExamples(t *testing.T) {
	rpm := &said{names: []string{"rpm"}}
	for _, test := range []struct {
		name   string
		levels map[Level]*said
		want   Verdict
	}{
		{"nothing", nil, Verdict{}},
		{
			"a plan before the resource",
			map[Level]*said{Plan: rpm, Resource: {names: []string{"tpm"}}},
			Verdict{Level: Plan, Hidden: []Hidden{{"tpm", Resource}}},
		},
		{
			"a plan's default hides the resource's limits",
			map[Level]*said{PlanDefault: rpm, Resource: {names: []string{"rpm", "tpm"}}, System: {names: []string{"tpm"}}},
			Verdict{Level: PlanDefault, Hidden: []Hidden{{"tpm", Resource}}},
		},
		{
			"an unlimited entity",
			map[Level]*said{EntityDefault: {unlimited: true}, System: rpm},
			Verdict{Level: EntityDefault, Unlimited: true, Hidden: []Hidden{{"rpm", System}}},
		},
		{"limits beside the mark count", map[Level]*said{Entity: {unlimited: true, names: []string{"rpm"}}}, Verdict{Level: Entity}},
		{"unlimited further down", map[Level]*said{Entity: rpm, System: {unlimited: true}}, Verdict{Level: Entity}},
		{
			"a block below an unlimited level",
			map[Level]*said{Entity: {unlimited: true}, System: {blocked: true}},
			Verdict{Level: Entity, Unlimited: true, Blocked: System},
		},
		{"the most specific block", map[Level]*said{Plan: {blocked: true}, Resource: {blocked: true}}, Verdict{Blocked: Plan}},
		{
			"a policy without limits",
			map[Level]*said{Entity: {policy: "local"}, System: {policy: "allow"}},
			Verdict{Policy: "local", PolicyLevel: Entity, SystemPolicy: "allow"},
		},
		{
			"a policy that nobody knows",
			map[Level]*said{Entity: {policy: "later"}, System: {policy: "allow"}},
			Verdict{Policy: "allow", PolicyLevel: System, SystemPolicy: "allow"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Resolve(itemsOf(test.levels))
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
	assert.Equal(t, Plan, wrong.Level)
	assert.ErrorContains(t, errors.Unwrap(err), "l_rpm_rp")
	_, err = Resolve(Items{Plan: good, System: half})
	require.NoError(t, err, "what does not count does no harm")
	_, err = Resolve(Items{Plan: good, System: schema.Item{"blocked": schema.String("yes")}})
	require.ErrorAs(t, err, &wrong, "it may be a block")
	assert.Equal(t, System, wrong.Level)
	_, err = Resolve(Items{Plan: good, System: schema.Item{"blocked": &types.AttributeValueMemberNULL{Value: true}}})
	require.NoError(t, err)
}

func TestTextsOfEveryLevel(t *testing.T) {
	for _, won := range append([]Level{Override, Options}, order...) {
		assert.Contains(t, Unknown(won), "add the limit", won)
		if won != Override {
			assert.Contains(t, Unknown(won), "level "+string(won))
		}
		assert.Contains(t, NotInForce(Entity, won), "level "+string(won))
	}
	assert.Contains(t, Unknown(Plan), "Limits.Set for the plan")
	assert.Contains(t, NotInForce(PlanDefault, System), "the plan's default list (level plan_default) won and hides the system's list (level system)")
	assert.True(t, Plan.OfPlan() && PlanDefault.OfPlan() && !Entity.OfPlan())
}
