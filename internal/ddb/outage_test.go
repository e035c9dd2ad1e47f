package ddb

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

var (
	errSilence = errors.New("nothing was heard")
	dawn       = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

func ms(n int) time.Time { return dawn.Add(time.Duration(n) * time.Millisecond) }

// fails is a request that began and ended then, with nothing answered meanwhile.
func (o *outage) fails(began, at int) bool {
	return o.silence(ms(began), ms(at), o.answers, false, errSilence)
}

// hangs is one that took its whole time.
func (o *outage) hangs(began, at int) bool {
	return o.silence(ms(began), ms(at), o.answers, true, errSilence)
}

// A timeout of 100 ms that passed whole is no failure that came fast.
func TestShortTimeoutThatPassedWholeOpens(t *testing.T) {
	var o outage
	assert.True(t, o.hangs(0, 100))
}

func TestAnswerSinceTheRequestBeganKeepsItClosed(t *testing.T) {
	var o outage
	began := o.answers
	o.answered(ms(500)) // another partition's
	assert.False(t, o.silence(ms(0), ms(1000), began, true, errSilence))
	assert.False(t, o.open)
	assert.True(t, o.silence(ms(501), ms(1501), o.answers, true, errSilence))
}

func TestFastFailuresOpenByThrees(t *testing.T) {
	for _, test := range []struct {
		at   []int // when each failed, 1 ms after it began
		open bool
	}{
		{[]int{1}, false},
		{[]int{1, 2}, false},
		{[]int{1, 2, 3}, true},
		{[]int{1, 125, 251}, true},
		{[]int{1, 125, 252}, false},
		{[]int{1, 125, 252, 300}, true},
		{[]int{1, 300, 600, 900, 1200}, false},
	} {
		var o outage
		for _, at := range test.at {
			o.fails(at-1, at)
		}
		assert.Equal(t, test.open, o.open, "%v", test.at)
	}
	var o outage
	assert.True(t, o.fails(0, 250), "a failure of 250 ms is slow")
}

func TestWaitsBetweenProbesDouble(t *testing.T) {
	var o outage
	o.hangs(0, 1000)
	assert.Equal(t, ms(1000), o.next, "at once")
	now := 1000
	for _, wait := range []int{500, 1000, 2000, 4000, 8000, 10_000, 10_000} {
		for _, chance := range []float64{0, 0.5, 0.999} {
			again := o
			again.probed(ms(now), chance)
			got := again.next.Sub(ms(now))
			assert.GreaterOrEqual(t, got, time.Duration(wait)*time.Millisecond/2)
			assert.LessOrEqual(t, got, time.Duration(wait)*time.Millisecond)
			assert.Equal(t, got, again.retryAfter(ms(now)))
		}
		o.probed(ms(now), 0.3)
		now += wait
	}
	assert.Equal(t, firstProbe/2, o.retryAfter(o.next), "a probe is under way")
	o.answered(ms(now))
	assert.Zero(t, o.retryAfter(ms(now)))
}

func TestTableThatFlapsGoesOnWaitingWhereItWas(t *testing.T) {
	for _, test := range []struct {
		after int // from closing to the next outage
		keeps bool
	}{{0, true}, {9_999, true}, {10_000, false}} {
		var o outage
		o.hangs(0, 1000)
		for range 3 {
			o.probed(ms(1000), 0)
		}
		o.answered(ms(2000))
		o.hangs(2000, 2000+test.after)
		o.since = ms(2000 + test.after)
		if test.keeps {
			assert.Equal(t, 2*time.Second, o.next.Sub(o.since), "%+v", test)
			o.probed(o.next, 0)
			assert.Equal(t, 4*time.Second, o.wait)
			continue
		}
		assert.Equal(t, o.since, o.next, "%+v", test)
		o.probed(o.next, 0)
		assert.Equal(t, firstProbe, o.wait)
	}
}

// Whatever happens in whatever order, the table opens only by silence during
// which nothing was answered, closes only by an answer, and asks in bounds.
func TestHistoriesOfAnOutage(t *testing.T) {
	type request struct {
		began   time.Time
		answers uint64
	}
	rapid.Check(t, func(t *rapid.T) {
		var o outage
		var under []request
		var lastAnswer time.Time
		now, fast := dawn, []time.Time(nil)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 40, 130, 260, 1000, 6000}).Draw(t, "ms")) * time.Millisecond)
			was, closings := o.open, o.closings
			switch rapid.SampledFrom([]string{"begin", "answer", "hang", "fail", "probe"}).Draw(t, "what") {
			case "begin":
				under = append(under, request{now, o.answers})
				continue
			case "probe":
				if o.open {
					o.probed(now, rapid.Float64Range(0, 0.999).Draw(t, "chance"))
					wait := o.next.Sub(now)
					assert.True(t, wait >= firstProbe/2 && wait <= longestProbe, "%v", wait)
				}
				continue
			case "answer":
				changed := o.answered(now)
				assert.Equal(t, was, changed)
				assert.False(t, o.open)
				lastAnswer, fast = now, nil
				continue
			case "hang", "fail":
				if len(under) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(under)-1).Draw(t, "which")
				r := under[i]
				under = append(under[:i], under[i+1:]...)
				whole := rapid.Bool().Draw(t, "whole")
				opened := o.silence(r.began, now, r.answers, whole, errSilence)
				if was {
					assert.False(t, opened)
					continue
				}
				alone := r.answers == o.answers
				quick := !whole && now.Sub(r.began) < fastFailure
				if alone && quick {
					fast = append(fast, now)
				}
				enough := len(fast) >= 3 && now.Sub(fast[len(fast)-3]) <= fastFailure
				assert.Equal(t, alone && (!quick || enough), opened)
				if opened {
					fast = nil
					assert.False(t, r.began.Before(lastAnswer), "something was answered since")
				}
			}
			assert.Equal(t, closings, o.closings)
		}
	})
}

func TestAnswerBetweenFastFailuresStartsTheCountAnew(t *testing.T) {
	var o outage
	o.fails(0, 1)
	o.fails(1, 2)
	o.answered(ms(3))
	o.fails(3, 4)
	o.fails(4, 5)
	assert.False(t, o.open)
	assert.True(t, o.fails(5, 6))
}
