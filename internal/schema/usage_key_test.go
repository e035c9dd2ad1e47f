package schema

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestUsageKeysAreReadAsTheyWereMade(t *testing.T) {
	for _, namespace := range []string{"", "eu"} {
		for _, window := range []UsageWindow{UsageHourly, UsageDaily, UsageMonthly} {
			for _, kind := range []UsageKind{UsageOfEntity, UsageOfResource, UsageOfPlan, UsageOfChildren} {
				s := UsageSeries{Kind: kind, ID: "a:b@c", Resource: "org/gpt-4", Window: window}
				if kind == UsageOfResource {
					s.ID = s.Resource
				}
				start := window.Floor(time.Date(2026, 3, 29, 11, 0, 0, 0, time.UTC))
				keys, got, at, ok := UsageSeriesOf(s.Key(NewKeys(namespace), start))
				assert.True(t, ok)
				assert.Equal(t, NewKeys(namespace), keys)
				assert.Equal(t, s, got)
				assert.Equal(t, start, at)
			}
		}
	}
	for _, other := range []Key{
		{},
		{"ENTITY#a", "#META"},
		{"ENTITY#a", "#BUCKET#gpt-4"},
		{"ENTITY#a", "#USAGE#gpt-4#2026-03-29"},
		{"ENTITY#a", "#USAGE##2026-03-29T11:00:00Z"},
		{"ENTITY#a", "#DENIED#gpt-4#2026-03-29T11:00:00Z"},
		{"ENTITY#", "#USAGE#gpt-4#2026-03-29T11:00:00Z"},
		{"SYSTEM#", "#USAGE_DAY#gpt-4#2026-03-29"},
	} {
		_, _, _, ok := UsageSeriesOf(other)
		assert.False(t, ok, "%v", other)
	}
}

func TestPartitionsAreSplit(t *testing.T) {
	for pk, want := range map[string][2]string{
		"ENTITY#a": {"", "ENTITY#a"}, "eu/ENTITY#a": {"eu", "ENTITY#a"}, "RESOURCE#org/gpt-4": {"", "RESOURCE#org/gpt-4"},
		"eu/AUDIT#$RESOURCE:org/gpt-4": {"eu", "AUDIT#$RESOURCE:org/gpt-4"}, "AUDIT#$RESOURCE:org/gpt-4": {"", "AUDIT#$RESOURCE:org/gpt-4"}, "": {}, "/x": {"", "/x"},
	} {
		keys, rest := Apart(pk)
		assert.Equal(t, want, [2]string{keys.Name(), rest}, pk)
	}
}
