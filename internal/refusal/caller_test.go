package refusal_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/refusal"
)

// The rest of money is rounded down to cents, is 0.00 in debt, and is that of the caller's own limit with the least.
func TestDollarsLeft(t *testing.T) {
	c := refusal.Caller{Entity: "key", Resource: "gpt-4"}
	status := func(entity string, remaining int64, limit dynalimit.Limit) dynalimit.LimitStatus {
		return dynalimit.LimitStatus{EntityID: entity, Resource: "all", Limit: limit, Requested: 1, Remaining: remaining}
	}
	day, month := dynalimit.DailyMoneyQuota("usd", 50_000_000, ""), dynalimit.MonthlyMoneyQuota("usd_month", 500_000_000, "")
	for want, statuses := range map[string][]dynalimit.LimitStatus{
		"12.34": {status("key", 12_349_999, day), status("key", 400_000_000, month), status("team", 1, day), status("key", 3, dynalimit.PerMinute("rpm", 5))},
		"0.00":  {status("key", -1, day)},
		"0.09":  {status("key", 99_999, month), status("key", 0, day.AsShadow())},
		"":      {status("team", 5, day), status("key", 5, dynalimit.DailyQuota("requests", 9, ""))},
	} {
		left, ok := c.DollarsLeft(statuses)
		assert.Equal(t, want, left)
		assert.Equal(t, want != "", ok)
	}
}
