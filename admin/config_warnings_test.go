package admin_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// A quota whose windows become shorter, or that becomes a bucket, is warned of; no other change is.
func TestWarnOfChange(t *testing.T) {
	month, day, bucket := dynalimit.MonthlyQuota("usd", 1000, "UTC"), dynalimit.DailyQuota("usd", 1000, "UTC"), dynalimit.PerMinute("usd", 1000)
	for name, c := range map[string]struct {
		before, after []dynalimit.Limit
		want          []string
	}{
		"month to day": {[]dynalimit.Limit{month}, []dynalimit.Limit{day}, []string{
			"usd is a quota of each month and becomes one of each day: the usage of the month is regained meanwhile, and a change back does not take it away",
		}},
		"day to bucket": {[]dynalimit.Limit{day}, []dynalimit.Limit{bucket}, []string{
			"usd is a quota of each day and becomes a token bucket: the usage of the day is regained meanwhile, and a change back does not take it away",
		}},
		"day to month": {[]dynalimit.Limit{day}, []dynalimit.Limit{month}, nil},
		"other amount": {[]dynalimit.Limit{day}, []dynalimit.Limit{dynalimit.DailyQuota("usd", 1, "America/Los_Angeles")}, nil},
		"removed":      {[]dynalimit.Limit{month}, nil, nil},
		"added":        {[]dynalimit.Limit{bucket}, []dynalimit.Limit{bucket, dynalimit.DailyQuota("rpd", 1, "UTC")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, admin.LimitConfig{Limits: c.before}.WarnOfChange(admin.LimitConfig{Limits: c.after}))
		})
	}
}
