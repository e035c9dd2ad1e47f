package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// What goes before a take leaves no room in a quota that was taken in a window that has ended:
// a denial that counted on it would be of no limit, and say to try again at once.
func TestNothingOfAnEarlierWindowGoesBeforeATake(t *testing.T) {
	hours, err := calendar.WindowsOf("hour", "")
	require.NoError(t, err)
	now := time.Date(2026, 1, 23, 12, 30, 0, 0, time.UTC).UnixMilli()
	v := View{Now: now, Image: &schema.Image{
		Set:    schema.NewLimitSets().OfKinds([]string{"usd"}, []string{"usd"}),
		Limits: []schema.Stored{{Rate: bucket.Quota(10_000, hours), Tokens: 2000, Window: int32(hours.At(now))}},
	}}
	for _, earlier := range []int64{0, 1} {
		window := hours.At(now) - earlier
		taken := v.Taken(Sums{{Name: "usd", Amounts: bucket.Amounts{Back: 8000, Take: 1000, Adjust: 500}, Window: bucket.InLife(0, window)}}).Of("usd")
		assert.Equal(t, bucket.Amounts{Take: 1500, Back: 8000 * (1 - earlier)}, taken.Amounts)
	}
}
