package schema

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Versions that do not know alerts must obey the limits: they refuse any unknown attribute of a limit's kind, and keep
// all other attributes.
func TestAlertsAreOneAttributeOfTheirSource(t *testing.T) {
	owner := ConfigOwner{Resource: "all"}
	plain := []ConfigLimit{ConfigLimit{Name: "tpd", Capacity: 5, Window: "day", Zone: "UTC"}.WithDefaults(), ConfigLimit{Name: "usd", Capacity: 9, Window: "month", Zone: "UTC", Unit: money}.WithDefaults()}
	alerted := []ConfigLimit{plain[0], plain[1]}
	alerted[0].AlertAt, alerted[1].AlertAt = PercentagesOf(100), PercentagesOf(50, 80)
	item := ConfigItem{Limits: alerted, Version: 1}.Item(Keys{}, owner, nil)
	assert.Equal(t, String("tpd@100 usd@50,80"), item[attrAlerts])
	read, err := DecodeConfig(item)
	require.NoError(t, err)
	assert.Equal(t, alerted, read.Limits)
	assert.False(t, read.Same(ConfigItem{Limits: plain}))

	without := ConfigItem{Limits: plain, Version: 1}.Item(Keys{}, owner, item)
	assert.Equal(t, ConfigItem{Limits: plain, Version: 1}.Item(Keys{}, owner, nil), without, "it goes with the alerts")
	delete(item, attrAlerts)
	assert.Equal(t, without, item, "nothing else is new")

	item[attrAlerts] = String("gone@80 usd@0,x,101,60 tpd")
	read, err = DecodeConfig(item)
	require.NoError(t, err, "what cannot be read alerts nobody, and limits as before")
	assert.Equal(t, PercentagesOf(60), read.Limits[1].AlertAt)
	assert.Zero(t, read.Limits[0].AlertAt)
}

// Configuration and bucket list alerts in one order, whatever the names: otherwise they would differ for ever.
func TestOrderOfAlerts(t *testing.T) {
	var limits []ConfigLimit
	var m Money
	for _, name := range []string{"usd", "usd-month", "usd.week", "usd2", "usd_x"} {
		limits = append(limits, ConfigLimit{Name: name, AlertAt: PercentagesOf(50)})
	}
	m.Alerts = AlertText(limits)
	item := Item{}
	m.attributes(func(name string, value types.AttributeValue) { item[name] = value })
	found, _ := extrasIn(item)
	assert.Equal(t, m.Alerts, found.Alerts)
}

func TestAlertsAreChecked(t *testing.T) {
	for _, test := range []struct {
		limit ConfigLimit
		fault string
	}{
		{ConfigLimit{Name: "a", Capacity: 1, Window: "day", AlertAt: PercentagesOf(1, 100)}, ""},
		{ConfigLimit{Name: "a", Capacity: 1, Window: "day", AlertAt: PercentagesOf(80, 80, 50, 1, 2, 3, 4, 5, 6)}, ""},
		{ConfigLimit{Name: "a", Capacity: 1, Window: "day", AlertAt: PercentagesOf(0)}, "percentages from 1 to 100"},
		{ConfigLimit{Name: "a", Capacity: 1, Window: "day", AlertAt: PercentagesOf(101)}, "percentages from 1 to 100"},
		{ConfigLimit{Name: "a", Capacity: 1, Window: "day", AlertAt: PercentagesOf(1, 2, 3, 4, 5, 6, 7, 8, 9)}, "at most 8"},
		{ConfigLimit{Name: "a", Capacity: 1, RefillPeriod: 1e9, AlertAt: PercentagesOf(80)}, "not a quota"},
		{ConfigLimit{Name: "a", Capacity: 1, Hold: 60e9, AlertAt: PercentagesOf(80)}, "not a quota"},
	} {
		_, at, reason := CheckLimits([]ConfigLimit{test.limit})
		if test.fault == "" {
			assert.Empty(t, reason)
			continue
		}
		assert.Equal(t, "[0].AlertAt", at)
		assert.Contains(t, reason, test.fault)
	}
}

// A set has the same value whatever the order and repetitions of its percentages, and lists what its text says.
func TestPercentages(t *testing.T) {
	set := PercentagesOf(100, 50, 80, 50)
	assert.Equal(t, PercentagesOf(50, 80, 100), set)
	assert.Equal(t, []int{50, 80, 100}, set.List())
	assert.Equal(t, set, percentagesIn("80,100,x,0,50,101"))
	assert.Equal(t, "50,80,100", set.String())
	assert.Nil(t, PercentagesOf().List())
	assert.Equal(t, PercentagesOf(1, 2, 3, 4, 5, 6, 7, 100), percentagesIn("100,1,2,3,4,5,6,7,8"), "of another version")
	for _, bad := range []Percentages{PercentagesOf(-1), PercentagesOf(256 + 80), PercentagesOf(80, 101), -5, 101, 50<<8 | 80, 50 << 8, 50 | 80<<16} {
		assert.False(t, bad.isValid(), "%d", int64(bad))
		assert.NotEmpty(t, bad.List())
	}
}
