package dynalimit

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A limit is written as a person would, and read back as it was.
func TestLimitsAreJSONThatAPersonWrites(t *testing.T) {
	for text, limit := range map[string]Limit{
		`{"name":"rpm","capacity":600,"period":"1m"}`:                          PerMinute("rpm", 600),
		`{"name":"tpd","capacity":5,"burst":9,"period":"24h"}`:                 PerDay("tpd", 5).WithBurst(9),
		`{"name":"x","capacity":5,"refill_amount":2,"period":"1h30m"}`:         {Name: "x", Capacity: 5, Burst: 5, RefillAmount: 2, RefillPeriod: 90 * time.Minute},
		`{"name":"y","capacity":1,"period":"250ms"}`:                           {Name: "y", Capacity: 1, Burst: 1, RefillAmount: 1, RefillPeriod: 250 * time.Millisecond},
		`{"name":"z","capacity":1,"burst":2,"refill_amount":3,"period":"10s"}`: {Name: "z", Capacity: 1, Burst: 2, RefillAmount: 3, RefillPeriod: 10 * time.Second},
	} {
		got, err := json.Marshal(limit)
		require.NoError(t, err)
		assert.Equal(t, text, string(got))
		var back Limit
		require.NoError(t, json.Unmarshal([]byte(text), &back))
		assert.Equal(t, limit, back)
	}
	for text, wrong := range map[string]string{
		`{"name":"rpm","capacity":600,"per":"1m"}`:     `unknown field "per"`,
		`{"name":"rpm","capacity":600}`:                `period: is "" for limit "rpm"`,
		`{"name":"rpm","capacity":600,"period":"day"}`: `"24h"`,
		`{"name":"rpm","capacity":"x","period":"1m"}`:  "cannot unmarshal",
	} {
		require.ErrorContains(t, json.Unmarshal([]byte(text), new(Limit)), wrong)
	}
}

// Names of policies and modes are checked where they are read.
func TestPoliciesAndModesAreText(t *testing.T) {
	var file struct {
		Policy UnavailablePolicy `json:"on_unavailable"`
		Mode   ChargeMode        `json:"cascade"`
	}
	require.NoError(t, json.Unmarshal([]byte(`{"on_unavailable":"local","cascade":"transaction"}`), &file))
	assert.Equal(t, Local, file.Policy)
	assert.Equal(t, ChargeTransaction, file.Mode)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"on_unavailable":"open"}`), &file), "on_unavailable: ")
	require.ErrorContains(t, json.Unmarshal([]byte(`{"cascade":"serial"}`), &file), "cascade: ")
	assert.Equal(t, Local, file.Policy, "what is refused changes nothing")
	require.NoError(t, json.Unmarshal([]byte(`{"on_unavailable":""}`), &file))
	assert.Empty(t, file.Policy)
}

// Whatever the period, its text is read as the same.
func TestPeriodTextIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, 400*24*3600*1000).Draw(t, "ms")) * time.Millisecond
		back, err := time.ParseDuration(periodText(d))
		require.NoError(t, err)
		assert.Equal(t, d, back)
	})
}

func TestDollars(t *testing.T) {
	for amount, micros := range map[float64]int64{
		5: 5_000_000, 0.5: 500_000, 0.000001: 1, 1234.5678901: 1_234_567_890, -2.5: -2_500_000, 0: 0,
		1_000_000: 1_000_000_000_000, 1e300: 1e18, math.Inf(-1): -1e18,
	} {
		assert.Equal(t, micros, Dollars(amount), "%v", amount)
	}
	assert.Zero(t, Dollars(math.NaN()))
	week := WeeklyMoneyQuota("usd", Dollars(5), "Europe/Berlin")
	assert.Equal(t, []string{"usd", "week", "Europe/Berlin"}, []string{week.Unit, week.Window, week.Zone})
	assert.Equal(t, "month", MonthlyMoneyQuota("usd", 1, "").Window)
}
