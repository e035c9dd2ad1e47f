package ddb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// waits is an error that knows when to come back.
type waits time.Duration

func (waits) Error() string { return "come back later" }

func (w waits) RetryIn() (time.Duration, bool) {
	return time.Duration(w), w > 0 && w < math.MaxInt64
}

func TestRetryAfterIsTheLongestWait(t *testing.T) {
	const forever = waits(math.MaxInt64)
	plain := errors.New("plain")
	for _, test := range []struct {
		err  error
		want time.Duration
		ok   bool
	}{
		{nil, 0, false},
		{plain, 0, false},
		{waits(time.Second), time.Second, true},
		{waits(0), 0, false},
		{forever, 0, false},
		{fmt.Errorf("wrapped: %w", waits(time.Second)), time.Second, true},
		{errors.Join(plain, waits(time.Second), waits(3*time.Second)), 3 * time.Second, true},
		{fmt.Errorf("%w and %w", waits(2*time.Second), plain), 2 * time.Second, true},
		{errors.Join(waits(0), waits(time.Second)), time.Second, true},
		{errors.Join(waits(time.Second), fmt.Errorf("wrapped: %w", forever)), 0, false},
	} {
		got, ok := RetryAfter(test.err)
		assert.Equal(t, test.ok, ok, "%v", test.err)
		assert.Equal(t, test.want, got, "%v", test.err)
	}
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	b := Backoff{First: 5 * time.Millisecond, Most: 200 * time.Millisecond}
	for try, bound := range []int{5, 10, 20, 40, 80, 160, 200, 200} {
		most := time.Duration(bound) * time.Millisecond
		longest := time.Duration(0)
		for range 200 {
			w := b.Wait(try)
			assert.Positive(t, w)
			longest = max(longest, w)
		}
		assert.LessOrEqual(t, longest, most)
		assert.Greater(t, longest, most/2, "spread over all of it")
	}
	for _, try := range []int{-1, 40, 63, 64, 1 << 40} {
		assert.Positive(t, b.Wait(try))
		assert.LessOrEqual(t, b.Wait(try), b.Most)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		assert.True(t, Sleep(t.Context(), time.Hour))
		assert.Equal(t, time.Hour, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start = time.Now()
		assert.False(t, Sleep(ctx, time.Hour))
		assert.False(t, Sleep(ctx, 0))
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

// Answers narrow what is known of a clock's offset, for ten minutes: then it is
// learnt anew, because clocks drift.
func TestClockLearnsADriftingOffsetAnew(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for later, offset := range map[time.Duration]time.Duration{
		9 * time.Minute:  5900 * time.Millisecond, // in 5 to 6 s, and in 5.8 to 6.8 s
		11 * time.Minute: 6300 * time.Millisecond, // in 5.8 to 6.8 s
	} {
		local := noon
		c := NewClock(func() time.Time { return local }, true)
		c.Observe(http.Header{"Date": {noon.Add(5 * time.Second).Format(http.TimeFormat)}}, local)
		assert.Equal(t, 5500*time.Millisecond, c.Now().Sub(local))
		local = noon.Add(later + 200*time.Millisecond)
		c.Observe(http.Header{"Date": {noon.Add(later + 6*time.Second).Format(http.TimeFormat)}}, local)
		assert.Equal(t, offset, c.Now().Sub(local), "after %v", later)
	}
}

func TestClockLearnsTheOffsetFromAnswers(t *testing.T) {
	local := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ahead := 90 * time.Second
	dated := func(c *Clock) {
		c.Observe(http.Header{"Date": {local.Add(ahead).Format(http.TimeFormat)}}, local)
	}
	source := func() time.Time { return local }
	c := NewClock(source, true)
	assert.Equal(t, local, c.Now())
	dated(c)
	assert.InDelta(t, ahead.Seconds(), c.Now().Sub(local).Seconds(), 1)
	assert.Equal(t, local, c.Source())
	assert.Equal(t, c.Now().UnixMilli(), c.NowMS())
	c.Observe(http.Header{"Date": {"yesterday"}}, local)
	assert.InDelta(t, ahead.Seconds(), c.Now().Sub(local).Seconds(), 1, "an answer without a date changes nothing")

	ahead = time.Second / 2
	dated(c)
	assert.Equal(t, local, c.Now(), "the clock stepped back to within a second")

	ahead = time.Hour
	off := NewClock(source, false)
	dated(off)
	assert.Equal(t, local, off.Now())
}
