package notation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

func TestLimit(t *testing.T) {
	for text, want := range map[string]struct {
		limit dynalimit.Limit
		words string
	}{
		"rpm=100":                         {dynalimit.PerMinute("rpm", 100), "100 a minute"},
		"rpm=10_000/1h":                   {dynalimit.PerHour("rpm", 10_000), "10,000 an hour"},
		"rpd=5/1d":                        {dynalimit.PerDay("rpd", 5), "5 a day"},
		"w=7/7d":                          {dynalimit.Limit{Name: "w", Capacity: 7, RefillPeriod: 7 * day}, "7 every 7d"},
		"tpm=40k/1m,burst=2M":             {dynalimit.PerMinute("tpm", 40_000).WithBurst(2_000_000), "40,000 a minute, burst 2,000,000"},
		"tpd=1e6/1d":                      {dynalimit.PerDay("tpd", 1_000_000), "1,000,000 a day"},
		"s=1/1s,burst=5":                  {dynalimit.PerSecond("s", 1).WithBurst(5), "1 a second, burst 5"},
		"t=9/90s,refill=3,burst=12":       {dynalimit.Limit{Name: "t", Capacity: 9, Burst: 12, RefillAmount: 3, RefillPeriod: 90 * time.Second}, "9, refilled by 3 every 1m30s, burst 12"},
		"x=9223372036854775807/2h":        {dynalimit.Limit{Name: "x", Capacity: 1<<63 - 1, RefillPeriod: 2 * time.Hour}, "9,223,372,036,854,775,807 every 2h"},
		"usd=50M/daily,zone=America/Lima": {dynalimit.DailyQuota("usd", 50_000_000, "America/Lima"), "50,000,000 each day in America/Lima"},
		"rpw=9/weekly":                    {dynalimit.WeeklyQuota("rpw", 9, ""), "9 each week in UTC"},
		"rpm=9/monthly,zone=Mars":         {dynalimit.MonthlyQuota("rpm", 9, "Mars"), "9 each month in Mars"}, // refused by the library
		"rph=1k/hourly":                   {dynalimit.Limit{Name: "rph", Capacity: 1000, Window: "hour"}, "1,000 each hour in UTC"},
		"inflight=20/concurrent":          {dynalimit.Concurrent("inflight", 20, 0), "20 at once, hold 1m, longest 1h"},
		"inflight=5/concurrent,longest=10m,hold=2m,shadow": {
			dynalimit.Concurrent("inflight", 5, 2*time.Minute).WithLongest(10 * time.Minute).AsShadow(), "5 at once, hold 2m, longest 10m, in shadow",
		},
		"usd=$50/daily":                    {dynalimit.DailyMoneyQuota("usd", 50_000_000, ""), "$50 each day in UTC"},
		"usd=$0.50/daily,per-model":        {perModel(dynalimit.DailyMoneyQuota("usd", 500_000, "")), "$0.50 each day in UTC, for each model"},
		"usd=$1234.000001/daily":           {dynalimit.DailyMoneyQuota("usd", 1_234_000_001, ""), "$1234.000001 each day in UTC"},
		"usd=$50/daily,max-debt=$5.50":     {dynalimit.DailyMoneyQuota("usd", 50_000_000, "").WithMaxDebt(5_500_000), "$50 each day in UTC, debt at most $5.50"},
		"usd=$50/daily,alert-at=80+50":     {dynalimit.DailyMoneyQuota("usd", 50_000_000, "").WithAlerts(80, 50), "$50 each day in UTC, alerts at 50 % and 80 %"},
		"tpm=40k,shadow,burst=80k":         {dynalimit.PerMinute("tpm", 40_000).WithBurst(80_000).AsShadow(), "40,000 a minute, burst 80,000, in shadow"},
		"tpm=40k,max-debt=10k":             {dynalimit.PerMinute("tpm", 40_000).WithMaxDebt(10_000), "40,000 a minute, debt at most 10,000"},
		"tpm=40k,reserve=20%,burst=80k":    {dynalimit.PerMinute("tpm", 40_000).WithBurst(80_000).WithReserve(16_000), "40,000 a minute, burst 80,000, reserve 16,000"},
		"tpm=40k,reserve=none":             {dynalimit.PerMinute("tpm", 40_000).WithReserve(-1), "40,000 a minute, no reserve"},
		"tpm=4,reserve=20%":                {dynalimit.PerMinute("tpm", 4).WithReserve(-1), "4 a minute, no reserve"},
		"usd=$50/daily,reserve=$5":         {dynalimit.DailyMoneyQuota("usd", 50_000_000, "").WithReserve(5_000_000), "$50 each day in UTC, reserve $5"},
		"inflight=20/concurrent,reserve=4": {dynalimit.Concurrent("inflight", 20, 0).WithReserve(4), "20 at once, hold 1m, longest 1h, reserve 4"},
		"not checked here: the library's":  {},
	} {
		l, err := ParseLimit(text)
		if want.words == "" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, WithDefaults([]dynalimit.Limit{want.limit}), WithDefaults([]dynalimit.Limit{l}), text)
		assert.Equal(t, want.words, DescribeLimit(l), text)
	}
}

func perModel(l dynalimit.Limit) dynalimit.Limit {
	l.PerModel = true
	return l
}

func TestLimitRefuses(t *testing.T) {
	for _, text := range []string{
		"", "rpm", "=5", "rpm=", "rpm=x", "rpm=1.5", "rpm=1E6", "rpm=1e99", "rpm=1K", "rpm=1.5k", "rpm=010", "rpm=+1", "rpm=_1", "rpm=1_", "rpm=9223372036854775808",
		"rpm=1/", "rpm=1/minute", "rpm=1/99999999999d", "rpm=1,burst", "rpm=1,burst=", "rpm=1,burst=0", "rpm=1,refill=0", "rpm=1,max-debt=0", "rpm=1,max-debt=$1", "rpm=1,reserve", "rpm=1,reserve=", "rpm=1,reserve=x", "rpm=1,reserve=-1", "rpm=1,reserve=51%", "rpm=1,reserve=07%", "rpm=1,reserve=$1", "rpm=1,burst=$1", "rpm=1,bust=2", "rpm=1,",
		"x=1/concurrent,burst=1", "x=1/concurrent,hold=1", "x=1,hold=1m", "x=1/daily,longest=1h", "x=1/concurrent,zone=UTC", "rpm=1/yearly", "rpm=1/day", "rpm=1,zone=UTC", "rpm=1/1d,zone=UTC", "rpm=1/daily,zone", "rpm=1/daily,zone=", "rpm=1/daily,burst=1", "rpm=1/daily,refill=1",
		"usd=$50", "usd=$50/1d", "usd=$/daily", "usd=$1.0000001/daily", "usd=$-1/daily", "usd=$1./daily", "usd=$1k/daily", "usd=50$/daily", "usd=5/daily,per-model", "tpm=1,alert-at=80", "tpd=1/daily,alert-at=", "tpd=1/daily,alert-at=80%", "usd=$5/daily,per-model=1",
	} {
		_, err := ParseLimit(text)
		assert.Error(t, err, text)
	}
}

// TestWindowAfter: at midnight of the zone, also where a day has 23 hours.
func TestWindowAfter(t *testing.T) {
	at := func(text string) time.Time {
		moment, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return moment
	}
	for _, test := range []struct {
		limit     dynalimit.Limit
		now, ends string
	}{
		{dynalimit.DailyQuota("usd", 1, ""), "2026-01-23T15:30:45Z", "2026-01-24T00:00:00Z"},
		{dynalimit.DailyQuota("usd", 1, "Europe/Berlin"), "2026-03-29T00:30:00+01:00", "2026-03-30T00:00:00+02:00"},
		{dynalimit.WeeklyQuota("usd", 1, ""), "2026-01-26T00:00:00Z", "2026-02-02T00:00:00Z"},
		{dynalimit.MonthlyQuota("usd", 1, "Asia/Tokyo"), "2026-01-31T23:59:59+09:00", "2026-02-01T00:00:00+09:00"},
		{dynalimit.Limit{Window: "hour"}, "2026-01-23T15:30:45Z", "2026-01-23T16:00:00Z"},
	} {
		end, quota := WindowAfter(test.limit, at(test.now), 1)
		assert.True(t, quota)
		assert.True(t, at(test.ends).Equal(end), "%v of %s: %v", test.limit, test.now, end)
	}
	_, quota := WindowAfter(dynalimit.PerDay("rpd", 1), at("2026-01-23T15:30:45Z"), 1)
	assert.False(t, quota)
}
