package config

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// configItem is a stored configuration with one limit a minute per name.
func configItem(policy string, limits map[string]int64) schema.Item {
	c := schema.ConfigItem{Version: 1, OnUnavailable: policy, Limits: perMinute(limits)}
	return c.Item(schema.Keys{}, schema.ConfigOwner{}, nil)
}

// perMinute are limits a minute, by name.
func perMinute(limits map[string]int64) (list []schema.ConfigLimit) {
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		n := limits[name]
		list = append(list, schema.ConfigLimit{Name: name, Capacity: n, Burst: n, RefillAmount: n, RefillPeriod: time.Minute})
	}
	return list
}

func TestResolveConfigFirstSourceWins(t *testing.T) {
	rpm := func(n int64) map[string]int64 { return map[string]int64{"rpm": n} }
	all := Items{
		Entity: configItem("", rpm(1)), EntityDefault: configItem("", rpm(2)), Resource: configItem("", rpm(3)),
		System: configItem("allow", map[string]int64{"rpm": 4, "tpm": 5}),
	}
	without := func(drop func(*Items)) Items {
		items := all
		drop(&items)
		return items
	}
	empty := configItem("", nil)
	for _, test := range []struct {
		name      string
		items     Items
		source    sources.Source
		permanent bool
		limits    map[string]int64
		policy    string
	}{
		{"entity", all, sources.Entity, true, rpm(1), "allow"},
		{"entity default", without(func(i *Items) { i.Entity = nil }), sources.EntityDefault, true, rpm(2), "allow"},
		{"an item without limits is passed over", without(func(i *Items) { i.Entity, i.EntityDefault = empty, empty }), sources.Resource, false, rpm(3), "allow"},
		{"system", Items{System: all.System}, sources.System, false, map[string]int64{"rpm": 4, "tpm": 5}, "allow"},
		{"a policy alone", Items{System: configItem("block", nil)}, "", false, nil, "block"},
		{"a policy nobody knows", Items{System: configItem("explode", nil)}, "", false, nil, ""},
		{"nothing", Items{}, "", false, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := new(kinds).resolve(&storedItems{Items: test.items})
			require.NoError(t, err)
			assert.Equal(t, test.source, got.Source)
			assert.Equal(t, test.permanent, got.Permanent)
			var want *plan.Config
			if test.limits != nil {
				want = Compile(perMinute(test.limits), test.source, test.permanent, 0, 0)
				want.Origin = got.Limits.Origin
			}
			assert.Equal(t, want, got.Limits)
			assert.Equal(t, test.policy, got.OnUnavailable)
		})
	}
}

func TestResolveConfigRefusesWhatItCannotRead(t *testing.T) {
	good := configItem("", map[string]int64{"rpm": 1})
	for name, bad := range map[string]schema.Item{
		"half a limit":   {"l_rpm_cp": schema.Number(1)},
		"zero":           configItem("", map[string]int64{"rpm": 0}),
		"too much":       configItem("", map[string]int64{"rpm": schema.MaxTokens + 1}),
		"no number":      {"l_rpm_cp": schema.String("1"), "l_rpm_rp": schema.Number(60)},
		"endless period": {"l_rpm_cp": schema.Number(1), "l_rpm_rp": schema.Number(1 << 62)},
		"no period":      {"l_rpm_cp": schema.Number(1), "l_rpm_rp": schema.Number(0)},
		"bad name":       {"l_9_cp": schema.Number(1), "l_9_rp": schema.Number(60)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := new(kinds).resolve(&storedItems{Items: Items{Resource: bad, System: good}})
			var invalid *Invalid
			require.ErrorAs(t, err, &invalid, "the source below must not take over")
			assert.Contains(t, invalid.Field, "source resource")
			_, err = new(kinds).resolve(&storedItems{Items: Items{Resource: good, System: bad}})
			assert.NoError(t, err, "a source that does not count does no harm")
		})
	}
}
