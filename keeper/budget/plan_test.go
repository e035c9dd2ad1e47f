package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/money"
)

func three(premium, standard, economy money.Picos) []labelState {
	return []labelState{
		{label: "premium", priced: true, quota: 10_000_000, spend: premium},
		{label: "standard", priced: true, quota: 5_000_000, spend: standard},
		{label: "economy", priced: true, quota: 2_000_000, spend: economy},
	}
}

func TestChoose(t *testing.T) {
	unpriced := three(money.Picos{}, money.Picos{}, money.Picos{})
	unpriced[0].priced = false
	zero := three(money.Picos{}, money.Picos{}, money.Picos{})
	zero[0].quota = 0
	credited := three(spent(-1), spent(0), spent(0))
	credited[0].quota = 0
	onePico := three(money.FromMicros(10_000_000).Sub(money.FromPicos(1)), money.Picos{}, money.Picos{})
	for _, tc := range []struct {
		name     string
		labels   []labelState
		override string
		index    int
		mode     Mode
		reason   string
	}{
		{"nothing spent", three(spent(0), spent(0), spent(0)), "", 0, ModeNormal, "WITHIN_QUOTA"},
		{"just below tight", three(spent(9_499_999), spent(0), spent(0)), "", 0, ModeNormal, "WITHIN_QUOTA"},
		{"tight", three(spent(9_500_000), spent(0), spent(0)), "", 0, ModeTight, "WITHIN_QUOTA"},
		{"one micro left", three(spent(9_999_999), spent(0), spent(0)), "", 0, ModeTight, "WITHIN_QUOTA"},
		{"one pico left", onePico, "", 0, ModeTight, "WITHIN_QUOTA"},
		{"exceeded", three(spent(10_000_000), spent(0), spent(0)), "", 1, ModeNormal, "QUOTA_EXCEEDED_premium"},
		{"two exceeded", three(spent(10_000_000), spent(5_000_000), spent(0)), "", 2, ModeNormal, "QUOTA_EXCEEDED_standard"},
		{"unpriced", unpriced, "", 1, ModeNormal, "UNPRICED_premium"},
		{"unpriced override", unpriced, "premium", 1, ModeNormal, "UNPRICED_premium"},
		{"quota 0", zero, "", 1, ModeNormal, "QUOTA_EXCEEDED_premium"},
		{"quota 0 with a credit", credited, "", 1, ModeNormal, "QUOTA_EXCEEDED_premium"},
		{"override", three(spent(0), spent(0), spent(0)), "economy", 2, ModeNormal, "MANUAL_OVERRIDE"},
		{"override beyond its quota", three(spent(0), spent(0), spent(3_000_000)), "economy", 2, ModeTight, "MANUAL_OVERRIDE"},
		{"override of an unknown label", three(spent(0), spent(0), spent(0)), "gone", 0, ModeNormal, "WITHIN_QUOTA"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := chooseLabel(tc.labels, 95, time.Time{}, tc.override)
			require.Equal(t, tc.index, p.index)
			assert.Equal(t, tc.mode, p.mode())
			assert.Equal(t, tc.reason, p.reason())
		})
	}
	p := chooseLabel(zero, 95, time.Time{}, "")
	assert.Zero(t, p.statuses()[0].Percent)
}

// TestNoPriceIsNoWait: the next day brings no price, so the error says what does.
func TestNoPriceIsNoWait(t *testing.T) {
	reset := time.Unix(100, 0)
	labels := three(spent(10_000_000), money.Picos{}, money.Picos{})
	labels[1].priced, labels[2].priced = false, false
	err := chooseLabel(labels, 95, reset, "").quotaError()
	assert.Equal(t, reset, err.RetryAt, "the priced label has room then")
	assert.EqualError(t, err, "budget: quota exceeded: premium 100.0%, standard has no price, economy has no price; retry at 1970-01-01T00:01:40Z")

	labels[0].priced = false
	err = chooseLabel(labels, 95, reset, "").quotaError()
	assert.Zero(t, err.RetryAt)
	assert.ErrorContains(t, err, "Prices.Put")
}
