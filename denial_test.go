package dynalimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

// The wait of a denial counts from when the last level had decided, however long
// before it the others did.
func TestDenialWaitsFromTheLastDecision(t *testing.T) {
	of := func(name string, now, used int64) level {
		cfg := newBucketConfig([]Limit{PerSecond(name, 10)}, levels.Entity, false, 0, 0)
		image := &schema.Image{
			HasRefilled: true, Refilled: now, Set: schema.NewLimitSets().Of([]string{name}),
			Limits: []schema.Stored{{Rate: cfg.Limits[0].Rate, Capacity: 10 * milli, Tokens: 10*milli - used}},
		}
		l := &lane.Lane{Entity: name, Resource: "gpt-4"}
		return level{lane: l, cfg: cfg, asked: []plan.Signed{{Name: name, Amount: 10 * milli}}, answered: true, last: levelReading{entity: name, resource: "gpt-4", Reading: plan.Reading{Image: image, Config: cfg, Now: now}}}
	}
	charged := &charge{levels: []level{of("a", 1000, 5*milli), of("b", 1450, milli/2), of("c", 1200, milli)}}
	denied := charged.denial()
	assert.Equal(t, 50*time.Millisecond, denied.RetryAfter, "of which 450 ms of the longest are over")
	waits := []time.Duration{denied.Statuses[0].RetryAfter, denied.Statuses[1].RetryAfter, denied.Statuses[2].RetryAfter}
	assert.Equal(t, []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, time.Millisecond}, waits, "a level that denied waits for something")
}

// A take that fits the bucket but not beside those before it is denied, so its
// status must say so: also on a bucket long full, whose refill since counts for
// nothing.
func TestStatusLeavesToOthersFromTheLevel(t *testing.T) {
	limit := PerSecond("calls", 10)
	cfg := newBucketConfig([]Limit{limit}, levels.Resource, false, 0, 1)
	rate := bucket.Rate{Burst: 10 * milli, Amount: 10 * milli, Period: 1000}
	image := &schema.Image{Set: schema.NewLimitSets().Of([]string{"calls"}), Limits: []schema.Stored{{Rate: rate, Tokens: 10 * milli}}, HasRefilled: true}
	r := levelReading{Reading: plan.Reading{Image: image, Config: cfg, Now: time.Hour.Milliseconds()}, precedence: plan.Precedence{Taken: plan.Sums{{Name: "calls", Amounts: bucket.Amounts{Take: 8 * milli}}}}}

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
	cfg := newBucketConfig([]Limit{PerMinute("rpm", 100)}, levels.Resource, false, 0, 1)
	carried := plan.Sums{{Name: "rpm", Amounts: bucket.Amounts{Back: 90 * milli, Take: 80 * milli}}}
	require.False(t, plan.NewView(image, cfg, plan.Current, 0).Fits([]plan.Signed{{Name: "rpm", Amount: 33 * milli}}, carried, nil))
	shown := levelReading{Reading: plan.Reading{Image: image, Config: cfg}, precedence: plan.Precedence{Taken: plan.NewView(image, cfg, plan.Current, 0).Taken(carried)}}
	s := shown.status("rpm", 33*milli, 0)
	require.True(t, s.Exceeded)
	require.EqualValues(t, 20, s.Remaining)
	require.Equal(t, 7800*time.Millisecond, s.RetryAfter)
}

// What is left is rounded down, in debt too: half a token of debt is shown as one.
func TestRemainingIsRoundedDown(t *testing.T) {
	for millitokens, tokens := range map[int64]int64{-1001: -2, -1000: -1, -500: -1, -1: -1, 0: 0, 999: 0, 1000: 1} {
		assert.Equal(t, tokens, floorDiv(millitokens, milli), "%d", millitokens)
	}
}
