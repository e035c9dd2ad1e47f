package ddb

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

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
