package prefetch

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// busy is a stock whose calls come at a rate a second for two seconds, one token
// each, until the instant it returns.
func busy(horizon, rate int64) (*Stock, int64) {
	s, now := New(horizon), int64(0)
	for now < 2000 {
		now += 1000 / rate
		s.Admitted([]plan.Signed{{Name: "rpm", Amount: milli}}, now)
	}
	return s, now
}

func level(level, burst int64) func(string) (Level, bool) {
	return func(string) (Level, bool) { return Level{level * milli, burst * milli}, true }
}

func TestWantIsWhatTheHorizonNeeds(t *testing.T) {
	s, now := busy(1000, 100)
	want := s.Want(level(1000, 1000), now)
	got := of(want, "rpm") / milli
	assert.InDelta(t, 80*(1-0.1353), got, 4, "0.8 of a second's calls, averaged over the two seconds there were")
	assert.Zero(t, of(want, "rpm")%milli)

	s.Add(want, now)
	assert.Nil(t, s.Want(level(1000, 1000), now), "enough is held")
	for s.Held("rpm") > got*milli/4 {
		_, ok := s.Serve([]plan.Signed{{Name: "rpm", Amount: milli}}, now)
		assert.True(t, ok)
	}
	assert.True(t, s.Low(now))
	assert.NotEmpty(t, s.Want(level(1000, 1000), now), "a quarter is left")
}

func TestNothingIsWantedOfWhatIsScarce(t *testing.T) {
	s, now := busy(1000, 100)
	assert.Nil(t, s.Want(level(500, 1000), now), "half full")
	assert.Nil(t, s.Want(func(string) (Level, bool) { return Level{}, false }, now), "a limit that the bucket does not have")
	assert.EqualValues(t, 10*milli, of(s.Want(level(510, 1000), now), "rpm"), "down to half")
	s.Moved("rpm", 10, 40, now)
	assert.EqualValues(t, 2*milli, of(s.Want(level(510, 1000), now), "rpm"), "a quarter of the traffic takes a quarter of it, in whole tokens")
}

// Where a process's part of one limit is less than a token, it debits nothing of the
// others, of which no call could be served.
func TestNothingIsWantedWithoutALimit(t *testing.T) {
	s, now := New(1000), int64(0)
	for now < 2000 {
		now += 10
		s.Admitted(amounts(1, 100), now)
	}
	levels := map[string]Level{"rpm": {Level: 501 * milli, Burst: 1000 * milli}, "tpm": {Level: 1_000_000 * milli, Burst: 1_000_000 * milli}}
	at := func(name string) (Level, bool) { l, ok := levels[name]; return l, ok }
	assert.EqualValues(t, milli, of(s.Want(at, now), "rpm"))
	s.Moved("rpm", 1, 2, now)
	assert.Nil(t, s.Want(at, now))
}

// The largest limits there are stay within 64 bits.
func TestWantOfTheLargest(t *testing.T) {
	const largest = 1 << 40
	s, now := New(10_000), int64(0)
	for now < 20_000 {
		now++
		s.Admitted([]plan.Signed{{Name: "rpm", Amount: largest * milli}}, now)
	}
	assert.EqualValues(t, (largest-largest/2)*milli, of(s.Want(level(largest, largest), now), "rpm"))
	assert.Nil(t, s.Want(level(1, 1), now), "a burst of one has no half to spare")
}
