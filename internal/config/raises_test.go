package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// TestRaises: a raise changes the capacity, and the refill in proportion, of token buckets of its
// period at its source or at less specific ones. The largest counts, and none counts past its end.
func TestRaises(t *testing.T) {
	minute := func(name string, capacity, burst, amount int64) schema.ConfigLimit {
		return schema.ConfigLimit{Name: name, Capacity: capacity, Burst: burst, RefillAmount: amount, RefillPeriod: time.Minute}
	}
	raise := func(name string, capacity, until int64) schema.ConfigRaise {
		return schema.ConfigRaise{Name: name, Capacity: capacity, PeriodSeconds: 60, Until: until}
	}
	hourly, quota := raise("rpm", 500, 100), minute("rpm", 100, 100, 100)
	hourly.PeriodSeconds, quota.Window, quota.RefillPeriod = 3600, "day", 0
	type saying map[sources.Source]schema.ConfigItem
	system := schema.ConfigItem{Limits: []schema.ConfigLimit{minute("rpm", 100, 100, 100)}}
	raised := func(c schema.ConfigItem, raises ...schema.ConfigRaise) schema.ConfigItem {
		c.Raises = raises
		return c
	}
	for name, test := range map[string]struct {
		stored saying
		want   schema.ConfigLimit
		until  int64
	}{
		"of a source without a list":               {saying{sources.Entity: raised(schema.ConfigItem{}, raise("rpm", 300, 100)), sources.System: system}, minute("rpm", 300, 300, 300), 100},
		"of its own source":                        {saying{sources.System: raised(system, raise("rpm", 300, 100))}, minute("rpm", 300, 300, 300), 100},
		"refill in proportion, rounded down":       {saying{sources.System: raised(schema.ConfigItem{Limits: []schema.ConfigLimit{minute("rpm", 1000, 2000, 7)}}, raise("rpm", 3000, 100), raise("tpm", 1, 100))}, minute("rpm", 3000, 3000, 21), 100},
		"refill of a third, rounded down":          {saying{sources.System: raised(schema.ConfigItem{Limits: []schema.ConfigLimit{minute("rpm", 3, 9, 10)}}, raise("rpm", 4, 100))}, minute("rpm", 4, 9, 13), 100},
		"refill beyond 64 bits on the way":         {saying{sources.System: raised(schema.ConfigItem{Limits: []schema.ConfigLimit{minute("rpm", 900_000_000_000, 900_000_000_000, 900_000_000_000)}}, raise("rpm", 1_000_000_000_000, 100))}, minute("rpm", 1_000_000_000_000, 1_000_000_000_000, 1_000_000_000_000), 100},
		"a refill that is too large":               {saying{sources.System: raised(schema.ConfigItem{Limits: []schema.ConfigLimit{minute("rpm", 1, 1, 1_000_000_000_000)}}, raise("rpm", 2, 100))}, minute("rpm", 1, 1, 1_000_000_000_000), 0},
		"a larger burst stays":                     {saying{sources.System: raised(schema.ConfigItem{Limits: []schema.ConfigLimit{minute("rpm", 100, 900, 100)}}, raise("rpm", 300, 100))}, minute("rpm", 300, 900, 300), 100},
		"a limit that is larger":                   {saying{sources.Entity: raised(schema.ConfigItem{}, raise("rpm", 60, 100)), sources.System: system}, minute("rpm", 100, 100, 100), 0},
		"the largest of several sources":           {saying{sources.Entity: raised(schema.ConfigItem{}, raise("rpm", 200, 300)), sources.PlanDefault: raised(schema.ConfigItem{}, raise("rpm", 300, 100)), sources.System: system}, minute("rpm", 300, 300, 300), 100},
		"the largest of those that have not ended": {saying{sources.Entity: raised(schema.ConfigItem{}, raise("rpm", 200, 300)), sources.PlanDefault: raised(schema.ConfigItem{}, raise("rpm", 300, 50)), sources.System: system}, minute("rpm", 200, 200, 200), 300},
		"another period":                           {saying{sources.Entity: raised(schema.ConfigItem{}, hourly), sources.System: system}, minute("rpm", 100, 100, 100), 0},
		"a quota":                                  {saying{sources.Entity: raised(schema.ConfigItem{}, raise("rpm", 300, 100)), sources.System: {Limits: []schema.ConfigLimit{quota}}}, quota, 0},
		"a list of a more specific source":         {saying{sources.Entity: {Limits: []schema.ConfigLimit{minute("rpm", 5, 5, 5)}, Extends: true}, sources.Plan: raised(schema.ConfigItem{}, raise("rpm", 300, 100)), sources.System: system}, minute("rpm", 5, 5, 5), 0},
		"at the instant of its end":                {saying{sources.System: raised(system, raise("rpm", 300, 50))}, minute("rpm", 100, 100, 100), 0},
	} {
		t.Run(name, func(t *testing.T) {
			item := func(source sources.Source) schema.Item {
				c, says := test.stored[source]
				if !says {
					return nil
				}
				return c.Item(schema.Keys{}, schema.ConfigOwner{}, nil)
			}
			v, err := Resolve(Items{Entity: item(sources.Entity), Plan: item(sources.Plan), PlanDefault: item(sources.PlanDefault), System: item(sources.System)})
			require.NoError(t, err)
			limits, raises, ends := v.At(50_000)
			require.Len(t, limits, 1)
			test.want.RefillPeriod = limits[0].RefillPeriod
			if test.want.Window != "" { // burst and refill of a quota are its capacity
				test.want.Burst, test.want.RefillAmount = limits[0].Burst, limits[0].RefillAmount
				test.want.Zone = limits[0].Zone
			}
			assert.Equal(t, test.want, limits[0].ConfigLimit)
			assert.Equal(t, test.until*1000, ends)
			assert.Equal(t, test.until > 0, len(raises) == 1)
		})
	}

	alone := raised(schema.ConfigItem{}, raise("rpm", 300, 100)).Item(schema.Keys{}, schema.ConfigOwner{}, nil)
	v, err := Resolve(Items{Entity: alone, System: schema.ConfigItem{Unlimited: true}.Item(schema.Keys{}, schema.ConfigOwner{}, nil)})
	require.NoError(t, err)
	assert.Equal(t, Verdict{Source: sources.System, Unlimited: true, Raises: []Raise{}}, v, "a raise limits nothing, and is no list")
	delete(alone, "k_rpm_rt")
	_, err = Resolve(Items{Entity: alone})
	require.ErrorContains(t, err, "the raise of limit rpm is not complete")
}
