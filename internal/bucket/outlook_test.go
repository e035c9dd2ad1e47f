package bucket

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// An outlook is what Level and Wait say one by one, of buckets and of quotas, also where
// products need 128 bits.
func TestOutlookIsLevelAndWaits(t *testing.T) {
	day, err := calendar.WindowsOf("day", "UTC")
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{20, 1_000_000, 1_000_000_000_000_000}).Draw(t, "most")
		s := State{Tokens: rapid.Int64Range(-most, most).Draw(t, "tokens"), Refilled: rapid.Int64Range(1, 2_000_000_000_000).Draw(t, "refilled")}
		s.Rate = Rate{Burst: rapid.Int64Range(1, most).Draw(t, "burst"), Amount: rapid.Int64Range(1, most).Draw(t, "amount"), Period: rapid.Int64Range(1, 40_000_000_000).Draw(t, "period")}
		now := s.Refilled + rapid.Int64Range(-10, 1_000_000_000).Draw(t, "passed")
		if rapid.Bool().Draw(t, "quota") {
			s.Rate = Quota(s.Burst, day)
			s.Refilled = day.At(s.Refilled)
		}
		need := rapid.Int64Range(0, most+2).Draw(t, "need")
		require.Equal(t, Outlook{s.Level(now), s.Wait(now, need), s.Wait(now, s.Burst)}, s.Outlook(now, need))
	})
}
