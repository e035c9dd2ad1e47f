package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	ms      = 1000 // µs
	minute  = 60 * second
	started = 1000 * second
)

func TestIntervalAfterThrottling(t *testing.T) {
	p := Pacing{}.ThrottleWrite(started, 6*ms, 0)
	assert.EqualValues(t, 9*ms, p.Interval(started), "1.5 round trips")
	assert.EqualValues(t, 6667, p.Interval(started+10*second), "3 % less a second")
	p = p.ThrottleWrite(started+10*second, 2*ms, 0)
	assert.EqualValues(t, 8333, p.Interval(started+10*second), "a quarter more")
	for range 100 {
		p = p.ThrottleWrite(started+10*second, 6*ms, 0)
	}
	assert.EqualValues(t, 2*second, p.Interval(started+10*second), "and no more than two seconds")

	p = Pacing{}.ThrottleWrite(started, 6*ms, 0)
	assert.Positive(t, p.Interval(started+minute))
	assert.Zero(t, p.Interval(started+2*minute), "below a millisecond it is none")
	assert.False(t, p.Over(started+minute))
	assert.True(t, p.Over(started+2*minute))
	p = Pacing{}.ThrottleRead(started, 0)
	assert.False(t, p.Over(started+minute-1), "reads too")
	assert.True(t, p.Over(started+minute))
}

func TestPausesAfterThrottling(t *testing.T) {
	p, now := Pacing{}, int64(started)
	for i, want := range []int64{5, 10, 20, 40, 80, 160, 320, 500, 500} {
		p = p.ThrottleRead(now, 0)
		assert.Equal(t, want*ms, p.Left(now), "half of it at least, throttled %d times before", i)
	}
	assert.EqualValues(t, 999_500, p.ThrottleRead(now, 0.999).Left(now), "up to all of it")
	p = p.See(nil, now)
	assert.EqualValues(t, 5*ms, p.ThrottleRead(now, 0).Left(now), "an answer ends the row")

	p = Pacing{throttledInterval: second, throttledAt: now}.ThrottleWrite(now, 0, 0)
	assert.EqualValues(t, 1250*ms/4, p.Left(now), "half the interval is longer")
}

func TestTurns(t *testing.T) {
	p := Pacing{}.ThrottleWrite(started, 6*ms, 0).Start(started + 10*ms)
	assert.InDelta(t, 9*ms, p.Left(started+10*ms), 5, "an interval after the last start, less what has faded")
	assert.InDelta(t, ms, p.Left(started+18*ms), 5)
	assert.LessOrEqual(t, p.Again(started+11*ms).Left(started+11*ms), int64(0), "what was refused goes again at once")
	assert.Positive(t, p.Again(started+11*ms).Start(started+11*ms).Left(started+12*ms))
}

func TestFairPart(t *testing.T) {
	set := schema.NewLimitSets().Of([]string{"rpm", "tpm"})
	image := func(rpm, tpm int64) *schema.Image {
		return &schema.Image{Set: set, Limits: []schema.Stored{
			{Rate: bucket.Rate{Burst: 100}, Consumed: rpm}, {Rate: bucket.Rate{Burst: 10_000}, Consumed: tpm},
		}}
	}
	own := Sums{{Name: "rpm", Amounts: bucket.Amounts{Take: 1}}, {Name: "tpm", Amounts: bucket.Amounts{Take: 200, Back: 100}}}
	p := Pacing{}.ThrottleWrite(started, 6*ms, 0).See(image(0, 0), started)
	p = p.Take(own).See(image(1, 100), started+99*ms)
	assert.EqualValues(t, 8973, p.Interval(started+99*ms), "too soon for a sample")
	p = p.See(image(40, 4000), started+100*ms)
	assert.EqualValues(t, 50*ms, p.Interval(started+100*ms), "a fortieth of 800 writes a second")
	assert.Less(t, p.Deny(started+100*ms).Interval(started+2100*ms), int64(9*ms), "not of a lane that denies")
	assert.EqualValues(t, 50*ms, p.Deny(started+100*ms).Interval(started+2101*ms), "again two seconds later")
	assert.EqualValues(t, 50*ms, p.Interval(started+minute-1))
	assert.Less(t, p.Interval(started+minute), int64(9*ms), "a minute after throttling the partition is believed")

	q := p.Take(own).See(image(440, 44_000), started+second)
	assert.EqualValues(t, 100*ms, q.Interval(started+second), "at most")
	gone := image(0, 0)
	gone.Incarnation = []byte("another")
	for name, image := range map[string]*schema.Image{"another bucket": gone, "other limits": {Set: schema.NewLimitSets().Of([]string{"rpm"})}, "none": nil} {
		q = p.See(image, started+second)
		assert.EqualValues(t, 50*ms, q.Interval(started+second), "%s: its counters say nothing of those before", name)
	}
	q = Pacing{}.ThrottleWrite(started, 6*ms, 0).See(image(0, 0), started).See(image(40, 4000), started+second)
	assert.Less(t, q.Interval(started+second), int64(9*ms), "a lane that took nothing has no part to keep to")
}
