package dynalimit

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

// configItem is a stored configuration with one limit a minute per name.
func configItem(policy string, limits map[string]int64) schema.Item {
	c := schema.ConfigItem{Version: 1, OnUnavailable: policy}
	for name, n := range limits {
		c.Limits = append(c.Limits, schema.ConfigLimit{Name: name, Capacity: n, Burst: n, RefillAmount: n, RefillPeriod: time.Minute})
	}
	return c.Item(schema.Keys{}, schema.ConfigOwner{}, nil)
}

func TestResolveConfigFirstLevelWins(t *testing.T) {
	rpm := func(n int64) map[string]int64 { return map[string]int64{"rpm": n} }
	all := config.Items{
		Entity: configItem("", rpm(1)), EntityDefault: configItem("", rpm(2)), Resource: configItem("", rpm(3)),
		System: configItem("allow", map[string]int64{"rpm": 4, "tpm": 5}),
	}
	without := func(drop func(*config.Items)) config.Items {
		items := all
		drop(&items)
		return items
	}
	empty := configItem("", nil)
	for _, test := range []struct {
		name      string
		items     config.Items
		level     levels.Level
		permanent bool
		limits    []Limit
		policy    UnavailablePolicy
	}{
		{"entity", all, levels.Entity, true, []Limit{PerMinute("rpm", 1)}, Allow},
		{"entity default", without(func(i *config.Items) { i.Entity = nil }), levels.EntityDefault, true, []Limit{PerMinute("rpm", 2)}, Allow},
		{"an item without limits is passed over", without(func(i *config.Items) { i.Entity, i.EntityDefault = empty, empty }), levels.Resource, false, []Limit{PerMinute("rpm", 3)}, Allow},
		{"system", config.Items{System: all.System}, levels.System, false, []Limit{PerMinute("rpm", 4), PerMinute("tpm", 5)}, Allow},
		{"a policy alone", config.Items{System: configItem("block", nil)}, "", false, nil, Block},
		{"a policy nobody knows", config.Items{System: configItem("explode", nil)}, "", false, nil, ""},
		{"nothing", config.Items{}, "", false, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := resolveConfig(&configItems{Items: test.items})
			require.NoError(t, err)
			assert.Equal(t, test.level, got.level)
			assert.Equal(t, test.permanent, got.permanent)
			assert.Equal(t, test.limits, got.limits)
			assert.Equal(t, test.policy, got.onUnavailable)
		})
	}
}

func TestResolveConfigRefusesWhatItCannotRead(t *testing.T) {
	good := configItem("", map[string]int64{"rpm": 1})
	for name, bad := range map[string]schema.Item{
		"half a limit":   {"l_rpm_cp": schema.Number(1)},
		"zero":           configItem("", map[string]int64{"rpm": 0}),
		"too much":       configItem("", map[string]int64{"rpm": maxTokens + 1}),
		"no number":      {"l_rpm_cp": schema.String("1"), "l_rpm_rp": schema.Number(60)},
		"endless period": {"l_rpm_cp": schema.Number(1), "l_rpm_rp": schema.Number(1 << 62)},
		"no period":      {"l_rpm_cp": schema.Number(1), "l_rpm_rp": schema.Number(0)},
		"bad name":       {"l_9_cp": schema.Number(1), "l_9_rp": schema.Number(60)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolveConfig(&configItems{Items: config.Items{Resource: bad, System: good}})
			var invalid *ValidationError
			require.ErrorAs(t, err, &invalid, "the level below must not take over")
			assert.Contains(t, invalid.Field, "level resource")
			_, err = resolveConfig(&configItems{Items: config.Items{Resource: good, System: bad}})
			assert.NoError(t, err, "a level that does not count does no harm")
		})
	}
}

func TestFingerprintIsStable(t *testing.T) {
	limits := []Limit{PerMinute("rpm", 100), PerHour("tpm", 5000).WithBurst(9000)}
	got := fingerprintLimits(limits, false)
	assert.Len(t, got, 8)
	assert.Equal(t, "46a205b6ff668247", hex.EncodeToString([]byte(got)), "buckets in tables hold it: it must not change between releases")
	assert.Equal(t, got, fingerprintLimits([]Limit{limits[1], limits[0]}, false), "the order does not matter")
	assert.Equal(t, got, fingerprintLimits([]Limit{{Name: "rpm", Capacity: 100, RefillPeriod: time.Minute}, limits[1]}, false), "nor do defaults")
	assert.Equal(t, "rpm", limits[0].Name, "the caller's list keeps its order")
}

func TestFingerprintCoversEveryParameter(t *testing.T) {
	base := []Limit{{"rpm", 100, 200, 300, time.Minute, "", "", "", false, 0, false}, {"tpm", 1, 2, 3, time.Hour, "", "", "", false, 0, false}}
	seen := map[string]string{fingerprintLimits(base, false): "base"}
	for name, limits := range map[string][]Limit{
		"name":     {{"rpn", 100, 200, 300, time.Minute, "", "", "", false, 0, false}, base[1]},
		"capacity": {{"rpm", 101, 200, 300, time.Minute, "", "", "", false, 0, false}, base[1]},
		"burst":    {{"rpm", 100, 201, 300, time.Minute, "", "", "", false, 0, false}, base[1]},
		"amount":   {{"rpm", 100, 200, 301, time.Minute, "", "", "", false, 0, false}, base[1]},
		"period":   {{"rpm", 100, 200, 300, time.Minute + time.Millisecond, "", "", "", false, 0, false}, base[1]},
		"swapped":  {{"rpm", 1, 2, 3, time.Hour, "", "", "", false, 0, false}, {"tpm", 100, 200, 300, time.Minute, "", "", "", false, 0, false}},
		"fewer":    base[:1],
		"more":     {base[0], base[1], {"zpm", 1, 2, 3, time.Hour, "", "", "", false, 0, false}},
		"none":     nil,
		"quota":    {{"rpm", 100, 200, 300, 0, "day", "UTC", "", false, 0, false}, base[1]},
		"window":   {{"rpm", 100, 200, 300, 0, "week", "UTC", "", false, 0, false}, base[1]},
		"zone":     {{"rpm", 100, 200, 300, 0, "day", "Asia/Tokyo", "", false, 0, false}, base[1]},
	} {
		fp := fingerprintLimits(limits, false)
		assert.Empty(t, seen[fp], name)
		seen[fp] = name
	}
	assert.NotContains(t, seen, fingerprintLimits(base, true), "the ttl policy")
}

func TestFingerprintsDifferWhenListsDo(t *testing.T) {
	limit := rapid.Custom(func(t *rapid.T) Limit {
		n := rapid.Int64Range(1, 4)
		return Limit{rapid.StringMatching(`[a-b]{1,3}`).Draw(t, "name"), n.Draw(t, "cp"), n.Draw(t, "bx"), n.Draw(t, "ra"), time.Duration(n.Draw(t, "rp")) * time.Second, "", "", "", false, 0, false}
	})
	list := rapid.SliceOfNDistinct(limit, 1, 3, func(l Limit) string { return l.Name })
	rapid.Check(t, func(t *rapid.T) {
		a, errA := checkLimits("a", list.Draw(t, "a"))
		b, errB := checkLimits("b", list.Draw(t, "b"))
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		same := assert.ObjectsAreEqual(a, b)
		if got := fingerprintLimits(a, true) == fingerprintLimits(b, true); got != same {
			t.Fatalf("%v and %v: fingerprints equal %v, lists equal %v", a, b, got, same)
		}
	})
}
