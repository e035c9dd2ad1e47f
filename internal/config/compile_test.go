package config

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// fingerprintOf is the fingerprint of limits once they are checked.
func fingerprintOf(t require.TestingT, limits []schema.ConfigLimit, permanent bool) string {
	if len(limits) > 0 {
		var at, reason string
		limits, at, reason = schema.CheckLimits(limits)
		require.Empty(t, reason, at)
	}
	return string(Compile(limits, sources.System, permanent, 0, 0).Fingerprint)
}

func limitOf(name string, capacity, burst, amount int64, period time.Duration, window, zone string) schema.ConfigLimit {
	return schema.ConfigLimit{Name: name, Capacity: capacity, Burst: burst, RefillAmount: amount, RefillPeriod: period, Window: window, Zone: zone}
}

func TestFingerprintIsStable(t *testing.T) {
	limits := []schema.ConfigLimit{
		{Name: "rpm", Capacity: 100, Burst: 100, RefillAmount: 100, RefillPeriod: time.Minute},
		{Name: "tpm", Capacity: 5000, Burst: 9000, RefillAmount: 5000, RefillPeriod: time.Hour},
	}
	got := fingerprintOf(t, limits, false)
	assert.Len(t, got, 8)
	assert.Equal(t, "46a205b6ff668247", hex.EncodeToString([]byte(got)), "buckets in tables hold it: it must not change between releases")
	assert.Equal(t, got, fingerprintOf(t, []schema.ConfigLimit{limits[1], limits[0]}, false), "the order does not matter")
	assert.Equal(t, got, fingerprintOf(t, []schema.ConfigLimit{{Name: "rpm", Capacity: 100, RefillPeriod: time.Minute}, limits[1]}, false), "nor do defaults")
	assert.Equal(t, "rpm", limits[0].Name, "the caller's list keeps its order")
}

func TestFingerprintCoversEveryParameter(t *testing.T) {
	base := []schema.ConfigLimit{limitOf("rpm", 100, 200, 300, time.Minute, "", ""), limitOf("tpm", 1, 2, 3, time.Hour, "", "")}
	seen := map[string]string{fingerprintOf(t, base, false): "base"}
	for name, limits := range map[string][]schema.ConfigLimit{
		"name":     {limitOf("rpn", 100, 200, 300, time.Minute, "", ""), base[1]},
		"capacity": {limitOf("rpm", 101, 200, 300, time.Minute, "", ""), base[1]},
		"burst":    {limitOf("rpm", 100, 201, 300, time.Minute, "", ""), base[1]},
		"amount":   {limitOf("rpm", 100, 200, 301, time.Minute, "", ""), base[1]},
		"period":   {limitOf("rpm", 100, 200, 300, time.Minute+time.Millisecond, "", ""), base[1]},
		"swapped":  {limitOf("rpm", 1, 2, 3, time.Hour, "", ""), limitOf("tpm", 100, 200, 300, time.Minute, "", "")},
		"fewer":    base[:1],
		"more":     {base[0], base[1], limitOf("zpm", 1, 2, 3, time.Hour, "", "")},
		"none":     nil,
		"quota":    {limitOf("rpm", 100, 100, 100, 0, "day", "UTC"), base[1]},
		"window":   {limitOf("rpm", 100, 100, 100, 0, "week", "UTC"), base[1]},
		"zone":     {limitOf("rpm", 100, 100, 100, 0, "day", "Asia/Tokyo"), base[1]},
	} {
		fp := fingerprintOf(t, limits, false)
		assert.Empty(t, seen[fp], name)
		seen[fp] = name
	}
	assert.NotContains(t, seen, fingerprintOf(t, base, true), "the ttl policy")
}

func TestFingerprintsDifferWhenListsDo(t *testing.T) {
	limit := rapid.Custom(func(t *rapid.T) schema.ConfigLimit {
		n := rapid.Int64Range(1, 4)
		return limitOf(rapid.StringMatching(`[a-b]{1,3}`).Draw(t, "name"), n.Draw(t, "cp"), n.Draw(t, "bx"), n.Draw(t, "ra"), time.Duration(n.Draw(t, "rp"))*time.Second, "", "")
	})
	list := rapid.SliceOfNDistinct(limit, 1, 3, func(l schema.ConfigLimit) string { return l.Name })
	rapid.Check(t, func(t *rapid.T) {
		a, _, _ := schema.CheckLimits(list.Draw(t, "a"))
		b, _, _ := schema.CheckLimits(list.Draw(t, "b"))
		same := assert.ObjectsAreEqual(a, b)
		if got := fingerprintOf(t, a, true) == fingerprintOf(t, b, true); got != same {
			t.Fatalf("%v and %v: fingerprints equal %v, lists equal %v", a, b, got, same)
		}
	})
}
