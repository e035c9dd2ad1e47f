package calendar

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	require.NoError(t, err)
	return v
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := LoadZone(name)
	require.NoError(t, err)
	return z
}

func TestNextDate(t *testing.T) {
	for _, tc := range []struct {
		name, zone, at, want string
	}{
		{"winter", "America/New_York", "2026-01-23T15:30:45Z", "2026-01-24T05:00:00Z"},
		{"the 23-hour day", "America/New_York", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
		{"the 25-hour day", "America/New_York", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"midnight does not exist", "America/Santiago", "2026-09-05T12:00:00Z", "2026-09-06T04:00:00Z"},
		{"clocks go back at midnight", "America/Havana", "2026-10-31T12:00:00Z", "2026-11-01T04:00:00Z"},
		{"half-hour zone", "Asia/Kolkata", "2026-01-23T18:29:59Z", "2026-01-23T18:30:00Z"},
		{"just on midnight", "UTC", "2026-01-24T00:00:00Z", "2026-01-25T00:00:00Z"},
		{"a day left out", "Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, instant(t, tc.want).UTC(), nextDate(instant(t, tc.at), zone(t, tc.zone)).UTC())
		})
	}
}

func TestNextDateIsTheFirstInstantOfAnotherDate(t *testing.T) {
	names := []string{"UTC", "America/New_York", "America/Santiago", "Asia/Tokyo", "Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia", "America/St_Johns"}
	rapid.Check(t, func(t *rapid.T) {
		z, err := LoadZone(rapid.SampledFrom(names).Draw(t, "zone"))
		require.NoError(t, err)
		from := time.Unix(rapid.Int64Range(1_640_000_000, 1_900_000_000).Draw(t, "at"), 0)
		next := nextDate(from, z)
		require.NotEqual(t, dayIn(from, z), dayIn(next, z))
		require.Equal(t, dayIn(from, z), dayIn(next.Add(-time.Nanosecond), z))
		require.LessOrEqual(t, next.Sub(from), 26*time.Hour)
	})
}

func TestPeriods(t *testing.T) {
	for _, tc := range []struct {
		period           Period
		day              string
		first, last, key string
	}{
		{Day, "20260123", "20260123", "20260123", "DAY#20260123"},
		{Week, "20260123", "20260119", "20260125", "WEEK#2026-W04"},
		{Week, "20270101", "20261228", "20270103", "WEEK#2026-W53"},
		{Month, "20260228", "20260201", "20260228", "MONTH#202602"},
		{Month, "20280229", "20280201", "20280229", "MONTH#202802"},
	} {
		first, last := Bounds(tc.period, tc.day)
		assert.Equal(t, []string{tc.first, tc.last, tc.key}, []string{first, last, PeriodKey(tc.period, tc.day)})
	}
	assert.Equal(t, "20260301", AddDays("20260228", 1))
	_, err := ParseDay("2026-01-23")
	require.Error(t, err)
}

func newYork(scope Scope) Regime {
	return Regime{Zone: "America/New_York", Scope: scope, Enforcement: Soft}
}

func TestZoneChangeWaitsForTheDaysEnd(t *testing.T) {
	now := instant(t, "2026-01-23T15:30:00Z") // 10:30 in New York, already the 24th in Tokyo
	tokyo := Regime{Zone: "Asia/Tokyo", Scope: ScopeApp, Enforcement: Soft}
	c := Calendar{newYork(ScopeApp)}.Change(now, tokyo)
	require.Len(t, c, 2)

	end := instant(t, "2026-01-24T05:00:00Z") // New York's midnight: 14:00 on the 24th in Tokyo
	assert.Equal(t, end.UnixMilli(), c[1].From)
	assert.Equal(t, "20260123", c.Day(now))
	assert.Equal(t, end.UTC(), c.Reset(now).UTC())
	assert.Equal(t, "20260123", c.Day(end.Add(-time.Millisecond)))
	assert.Equal(t, "20260124", c.Day(end))
	assert.Equal(t, instant(t, "2026-01-24T15:00:00Z").UTC(), c.Reset(end).UTC())
	assert.Equal(t, "America/New_York", c.Of("20260123").Zone)
	assert.Equal(t, "Asia/Tokyo", c.Of("20260124").Zone)
	assert.Equal(t, end.UTC(), c.End("20260123").UTC())
	assert.Equal(t, instant(t, "2026-01-24T15:00:00Z").UTC(), c.End("20260124").UTC())
}

func TestZoneChangeWestwardProlongsTheDay(t *testing.T) {
	// 23:00 on the 23rd in Tokyo; its day ends at 15:00Z, when Honolulu has 05:00 on the 23rd.
	now := instant(t, "2026-01-23T14:00:00Z")
	c := Calendar{{Zone: "Asia/Tokyo"}}.Change(now, Regime{Zone: "Pacific/Honolulu"})
	midnight := instant(t, "2026-01-24T10:00:00Z") // Honolulu's
	assert.Equal(t, midnight.UnixMilli(), c[1].From)
	assert.Equal(t, "20260123", c.Day(instant(t, "2026-01-23T20:00:00Z")), "the day goes on")
	assert.Equal(t, midnight.UTC(), c.Reset(instant(t, "2026-01-23T20:00:00Z")).UTC())
	assert.Equal(t, "20260124", c.Day(midnight))
}

func TestChangeGivesTenMinutesNotice(t *testing.T) {
	now := instant(t, "2026-01-24T04:58:00Z") // two minutes before midnight
	c := Calendar{newYork(ScopeApp)}.Change(now, newYork(ScopeOrg))
	assert.Equal(t, now.Add(10*time.Minute).UnixMilli(), c[1].From)
	assert.Equal(t, "20260123", c.Day(instant(t, "2026-01-24T05:05:00Z")))
	assert.Equal(t, "20260124", c.Day(instant(t, "2026-01-24T05:08:00Z")))

	back := c.Change(now.Add(time.Minute), newYork(ScopeApp))
	assert.Len(t, back, 1, "taken back before it began")
	late := c.Change(instant(t, "2026-01-24T05:04:00Z"), newYork(ScopeApp))
	require.Len(t, late, 2, "the day is already prolonged")
	assert.Equal(t, "20260123", late.Day(instant(t, "2026-01-24T05:13:59Z")))
	assert.Equal(t, "20260124", late.Day(instant(t, "2026-01-24T05:14:00Z")))
	tooLate := c.Change(instant(t, "2026-01-24T05:07:30Z"), newYork(ScopeApp))
	require.Len(t, tooLate, 3, "a change half a minute away is not taken back")
	assert.Equal(t, "20260124", tooLate[2].Cap)
}

// TestDaysOnlyRise changes zones at random and walks along: no day is entered
// twice, and a record's regime never changes afterwards.
func TestDaysOnlyRise(t *testing.T) {
	names := []string{"UTC", "America/New_York", "Asia/Tokyo", "Pacific/Honolulu", "Pacific/Kiritimati", "America/Santiago"}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_769_182_245, 0)
		c := Calendar{{Zone: rapid.SampledFrom(names).Draw(t, "first")}}
		day := c.Day(now)
		type seen struct {
			at  time.Time
			day string
		}
		var past []seen
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "put") {
				c = c.Change(now, Regime{Zone: rapid.SampledFrom(names).Draw(t, "zone")})
			}
			require.Equal(t, day, c.Day(now), "a PUT never ends the running day")
			reset := c.Reset(now)
			require.True(t, reset.After(now))
			require.Equal(t, day, c.Day(reset.Add(-time.Millisecond)))
			require.Greater(t, c.Day(reset), day)
			require.Equal(t, reset.UnixMilli(), c.End(day).UnixMilli())
			past = append(past, seen{now, day})
			now = now.Add(time.Duration(rapid.Int64Range(1, 30*3600).Draw(t, "later")) * time.Second)
			next := c.Day(now)
			require.GreaterOrEqual(t, next, day)
			day = next
			for _, p := range past {
				require.Equal(t, p.day, c.Day(p.at))
			}
		}
	})
}

// TestChangeNeverBeginsBeforeItsNotice: a stored instant has whole milliseconds.
func TestChangeNeverBeginsBeforeItsNotice(t *testing.T) {
	now := instant(t, "2026-01-24T04:58:00Z").Add(300 * time.Microsecond)
	c := Calendar{newYork(ScopeApp)}.Change(now, newYork(ScopeOrg))
	assert.False(t, time.UnixMilli(c[1].From).Before(now.Add(SwitchNotice)))
}

// A write to a day opens its total again for an hour before anybody may store one, for clocks
// differ and a write takes its time.
func TestDaysAreOpenedAgainBeforeTheyClose(t *testing.T) {
	c := Calendar{{Zone: "America/New_York"}}
	end := time.Date(2026, 1, 24, 5, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		after           time.Duration
		reopens, closes bool
	}{
		{25*time.Hour - 1, false, false}, {25 * time.Hour, true, false}, {26*time.Hour - 1, true, false}, {26 * time.Hour, true, true}, {1000 * time.Hour, true, true},
	} {
		assert.Equal(t, tc.reopens, c.Reopens("20260123", end.Add(tc.after)), tc.after)
		assert.Equal(t, tc.closes, c.Closes("20260123", end.Add(tc.after)), tc.after)
	}
}
