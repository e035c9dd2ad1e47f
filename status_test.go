package dynalimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A take that fits the bucket but not beside those before it is denied, so its
// status must say so: also on a bucket long full, whose refill since counts for
// nothing.
func TestStatusLeavesToOthersFromTheLevel(t *testing.T) {
	limit := PerSecond("calls", 10)
	cfg := newBucketConfig([]Limit{limit}, LevelResource, false, 0, 1)
	rate := bucket.Rate{Burst: 10 * milli, Amount: 10 * milli, Period: 1000}
	image := &schema.Image{Set: schema.NewLimitSets().Of([]string{"calls"}), Limits: []schema.Stored{{Rate: rate, Tokens: 10 * milli}}, HasRefilled: true}
	r := levelReading{Reading: plan.Reading{Image: image, Config: cfg, Now: time.Hour.Milliseconds()}, before: plan.Precedence{Taken: plan.Sums{{Name: "calls", Amounts: bucket.Amounts{Take: 8 * milli}}}}}

	require.False(t, r.status("calls", 2*milli, 0).Exceeded)
	s := r.status("calls", 3*milli, 0)
	require.True(t, s.Exceeded)
	require.EqualValues(t, 2, s.Remaining)
	require.Equal(t, 100*time.Millisecond, s.RetryAfter)
}

// What is given back beside a take does not lift the bucket above its burst, for
// the status as for the decision.
func TestStatusOfABucketThatIsGivenBackTo(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 100 * milli, Period: 60_000}
	image := &schema.Image{Set: schema.NewLimitSets().Of([]string{"rpm"}), Limits: []schema.Stored{{Rate: rate, Tokens: 90 * milli}}, HasRefilled: true}
	cfg := newBucketConfig([]Limit{PerMinute("rpm", 100)}, LevelResource, false, 0, 1)
	carried := plan.Sums{{Name: "rpm", Amounts: bucket.Amounts{Back: 90 * milli, Take: 80 * milli}}}
	require.False(t, plan.NewView(image, cfg, plan.Current, 0).Fits([]plan.Signed{{Name: "rpm", Amount: 33 * milli}}, carried, nil))
	s := levelReading{Reading: plan.Reading{Image: image, Config: cfg}, before: plan.Precedence{Taken: carried.Taken()}}.status("rpm", 33*milli, 0)
	require.True(t, s.Exceeded)
	require.EqualValues(t, 20, s.Remaining)
	require.Equal(t, 7800*time.Millisecond, s.RetryAfter)
}
