package schema

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUsageSeriesKeys(t *testing.T) {
	start := time.Date(2026, 3, 29, 11, 0, 0, 0, time.UTC)
	keys := NewKeys("eu")
	for want, s := range map[Key]UsageSeries{
		{"eu/ENTITY#key-1", "#USAGE#gpt-4#2026-03-29T11:00:00Z"}:        {UsageOfEntity, "key-1", "gpt-4", UsageHourly},
		{"eu/ENTITY#key-1", "#USAGE_DAY#gpt-4#2026-03-29"}:              {UsageOfEntity, "key-1", "gpt-4", UsageDaily},
		{"eu/ENTITY#key-1", "#USAGE_MONTH#gpt-4#2026-03"}:               {UsageOfEntity, "key-1", "gpt-4", UsageMonthly},
		{"eu/RESOURCE#gpt-4", "#USAGE_HOUR#gpt-4#2026-03-29T11:00:00Z"}: {UsageOfResource, "gpt-4", "gpt-4", UsageHourly},
		{"eu/PLAN#pro", "#USAGE_DAY#gpt-4#2026-03-29"}:                  {UsageOfPlan, "pro", "gpt-4", UsageDaily},
		{"eu/ENTITY#team", "#CHILDREN_MONTH#gpt-4#2026-03"}:             {UsageOfChildren, "team", "gpt-4", UsageMonthly},
	} {
		assert.Equal(t, want, s.Key(keys, start))
	}
	entity := UsageSeries{Kind: UsageOfEntity, ID: "key-1", Resource: "gpt-4", Window: UsageHourly}
	assert.Equal(t, keys.Usage("key-1", "gpt-4", start), entity.Key(keys, start))
	entity.Resource = ""
	assert.Equal(t, "#USAGE#", entity.Prefix())
}

func TestUsageWindows(t *testing.T) {
	at := time.Date(2024, 2, 29, 23, 59, 59, 1, time.FixedZone("", 3600))
	for w, want := range map[UsageWindow][2]time.Time{
		UsageHourly:  {time.Date(2024, 2, 29, 22, 0, 0, 0, time.UTC), time.Date(2024, 2, 29, 23, 0, 0, 0, time.UTC)},
		UsageDaily:   {time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)},
		UsageMonthly: {time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)},
	} {
		assert.Equal(t, want, [2]time.Time{w.Floor(at), w.Next(w.Floor(at))}, "%s", w)
	}
}

func TestUsageSumCodec(t *testing.T) {
	type counts = map[string]int64
	for _, s := range []UsageSum{
		{UsageSeries: UsageSeries{UsageOfResource, "gpt-4", "gpt-4", UsageDaily}, Start: time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), Net: counts{"ttl": 5, "a_b": -7, "a_b^": -3}, Unrecorded: counts{"ttl": 2}, Unseen: counts{"a_b": 1}, Entities: 2, Final: true, Expires: 99},
		{UsageSeries: UsageSeries{UsageOfPlan, "pro", "org/gpt-4", UsageHourly}, Start: time.Date(2026, 3, 29, 7, 0, 0, 0, time.UTC), Net: counts{"rpm": 0}, Unrecorded: counts{}, Unseen: counts{}},
	} {
		got, err := DecodeUsageSum(s.Item(NewKeys("eu")))
		require.NoError(t, err)
		assert.Equal(t, s, got)
	}
	_, err := DecodeUsageSum(Item{PK: String("p"), SK: String("s")})
	assert.ErrorContains(t, err, `item "p", "s": is no sum of usage`)
}

func TestUsagePlace(t *testing.T) {
	for _, p := range []UsagePlace{{}, {Parent: "team", Plan: "pro"}, {Plan: "pro"}, {Parent: "team"}} {
		st := p.CloseSnapshot(nil)
		assert.Equal(t, "attribute_exists(#0) AND attribute_not_exists(#1)", st.Condition)
		item, n := Item{}, 0
		for attr, has := range map[string]bool{attrClosed: true, attrParentID: p.Parent != "", attrPlan: p.Plan != ""} {
			if !has {
				continue
			}
			n++
			for name, as := range st.Names {
				if as == attr {
					_, value, _ := strings.Cut(st.Update, name+" = ")
					value, _, _ = strings.Cut(value, ",")
					item[attr] = st.Values[strings.TrimSpace(value)]
				}
			}
		}
		assert.Len(t, st.Values, n)
		got, closed := ClosedPlace(item)
		assert.True(t, closed)
		assert.Equal(t, p, got)
		item = Item{}
		markClosed(item, p)
		got, closed = ClosedPlace(item)
		assert.True(t, closed)
		assert.Equal(t, p, got)
	}
	_, closed := ClosedPlace(Item{})
	assert.False(t, closed)
}
