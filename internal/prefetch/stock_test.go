package prefetch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/plan"
)

func amounts(rpm, tpm int64) []plan.Signed {
	return []plan.Signed{{Name: "rpm", Amount: rpm * milli}, {Name: "tpm", Amount: tpm * milli}}
}

func TestServesTheOldestAllOrNothing(t *testing.T) {
	s := New(1000)
	s.Add(amounts(2, 10), 100)
	s.Add(amounts(2, 10), 200)

	_, ok := s.Serve(amounts(1, 21), 300)
	require.False(t, ok, "of one limit there is too little")
	assert.EqualValues(t, 4*milli, s.Held("rpm"), "and of the other nothing was taken")

	sent, ok := s.Serve(amounts(3, 5), 300)
	require.True(t, ok)
	assert.EqualValues(t, 100, sent)
	_, ok = s.Serve(amounts(1, 6), 1101)
	require.True(t, ok, "what is left of the second write")
	assert.Equal(t, []plan.Signed{{Name: "tpm", Amount: 5 * milli}}, s.TakeLapsed(), "the first became too old")
	assert.EqualValues(t, 4*milli, s.Held("tpm"))
}

func TestHeldUntilTheHorizonAndNoLonger(t *testing.T) {
	s := New(1000)
	s.Add(amounts(1, 1), 100)
	s.Expire(1100)
	assert.EqualValues(t, milli, s.Held("rpm"))
	s.Expire(1101)
	assert.Zero(t, s.Held("rpm"))
	assert.Equal(t, amounts(1, 1), s.TakeLapsed())
	assert.False(t, s.HasTokens())
}

func TestPutBackKeepsItsAge(t *testing.T) {
	s := New(1000)
	s.Add(amounts(1, 1), 100)
	s.Add(amounts(1, 1), 600)
	sent, ok := s.Serve(amounts(2, 2), 700)
	require.True(t, ok)
	s.Add(amounts(2, 2), sent)
	s.Expire(1101)
	assert.Zero(t, s.Held("rpm"), "as old as the oldest of it")
}

func TestPutBackJoinsWhatIsAsOld(t *testing.T) {
	s := New(1000)
	s.Add(amounts(3, 3), 100)
	for range 100 {
		sent, ok := s.Serve(amounts(1, 1), 200)
		require.True(t, ok)
		s.Add(amounts(1, 1), sent)
	}
	assert.Len(t, s.parcels, 1)
	assert.EqualValues(t, 3*milli, s.Held("tpm"))
}

func TestLapsedIsTakenOffOnce(t *testing.T) {
	s := New(1000)
	s.Add(amounts(3, 3), 0)
	s.LapseAll()
	lapsed := s.TakeLapsed()
	assert.Equal(t, amounts(3, 3), lapsed)
	assert.Empty(t, s.TakeLapsed())
	s.Lapse(lapsed)
	assert.Equal(t, lapsed, s.TakeLapsed())
	s.Add(amounts(1, 1), 0)
	s.Lose()
	assert.False(t, s.HasTokens(), "of a bucket that is gone nothing is left, on the counter neither")
}

// Whatever is added, served, put back or lapses: it is all accounted for, and
// nothing is served beyond the horizon.
func TestStockAccountsForEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const horizon = 50
		s, now := New(horizon), int64(0)
		var added, served, lapsed int64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 30).Draw(t, "wait")
			n := rapid.Int64Range(1, 5).Draw(t, "n")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				s.Add(amounts(n, n), now-rapid.Int64Range(0, 20).Draw(t, "under way"))
				added += n
			case 2:
				if sent, ok := s.Serve(amounts(n, n), now); ok {
					require.LessOrEqual(t, now-sent, int64(horizon))
					served += n
				}
			case 3:
				if sent, ok := s.Serve(amounts(n, n), now); ok {
					s.Add(amounts(n, n), sent)
				}
			default:
				s.Expire(now)
			}
			lapsed += amountIn(s.TakeLapsed(), "rpm") / milli
			require.Equal(t, added, served+lapsed+s.Held("rpm")/milli)
			require.Equal(t, s.Held("rpm"), s.Held("tpm"))
		}
	})
}

// bounded is one state of a small bucket with a stock in front of it: the level, the
// queue of admissions, and the ages of what is held.
type bounded struct {
	level, queue int64
	held         string
	back         int64 // how much may yet be given back
}

// Every state that a bucket and a process that debits it ahead can reach: what is
// admitted exceeds the burst by refill × horizon at most.
func TestExcessIsBoundedByRefillTimesHorizon(t *testing.T) {
	for _, c := range []struct{ burst, refill, horizon int64 }{{2, 1, 1}, {3, 1, 2}, {4, 1, 3}, {5, 2, 1}, {6, 2, 2}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			worst, states := explore(c.burst, c.refill, c.horizon, 0)
			assert.LessOrEqual(t, worst, c.refill*c.horizon)
			assert.Positive(t, worst, "the bound is met by somebody")
			assert.Greater(t, states, 10)
		})
	}
}

// What leases give back makes room in a bucket that holds less than its burst only
// because of what is held: so much more may be admitted.
func TestExcessIsBoundedByWhatIsGivenBackBeside(t *testing.T) {
	for _, back := range []int64{1, 2} {
		worst, _ := explore(4, 1, 2, back)
		assert.LessOrEqual(t, worst, 2+back)
		assert.Greater(t, worst, int64(2), "more than what is refilled")
	}
}

// explore plays every history of ticks, debits and admissions, and of so many give-backs.
func explore(burst, refill, horizon, back int64) (worst int64, states int) {
	type node struct {
		bounded
		ages []int64
	}
	stock := func(ages []int64) *Stock {
		s := New(horizon)
		for _, age := range ages {
			s.Add([]plan.Signed{{Name: "x", Amount: 1}}, -age)
		}
		return s
	}
	agesOf := func(s *Stock, now int64) (ages []int64) {
		for _, p := range s.parcels {
			for range amountIn(p.left, "x") {
				ages = append(ages, now-p.sent)
			}
		}
		return ages
	}
	start := node{bounded: bounded{level: burst, back: back}}
	seen, todo := map[bounded]bool{}, []node{start}
	visit := func(level, queue, back int64, ages []int64) {
		n := node{bounded{level, queue, fmt.Sprint(ages), back}, ages}
		if !seen[n.bounded] {
			seen[n.bounded] = true
			todo = append(todo, n)
		}
	}
	for len(todo) > 0 {
		n := todo[0]
		todo = todo[1:]
		later := stock(n.ages)
		later.Expire(1)
		visit(min(burst, n.level+refill), max(0, n.queue-refill), n.back, agesOf(later, 1))
		if n.level > 0 {
			more := stock(n.ages)
			more.Add([]plan.Signed{{Name: "x", Amount: 1}}, 0)
			visit(n.level-1, n.queue, n.back, agesOf(more, 0))
		}
		serving := stock(n.ages)
		if _, ok := serving.Serve([]plan.Signed{{Name: "x", Amount: 1}}, 0); ok {
			worst = max(worst, n.queue+1-burst)
			visit(n.level, n.queue+1, n.back, agesOf(serving, 0))
		}
		if n.back > 0 {
			visit(min(burst, n.level+1), max(0, n.queue-1), n.back-1, n.ages)
		}
	}
	return worst, len(seen)
}

// busy is a stock whose calls come at a rate a second for two seconds, one token
// each, until the instant it returns.
func busy(horizon, rate int64) (*Stock, int64) {
	s, now := New(horizon), int64(0)
	for now < 2000 {
		now += 1000 / rate
		s.CountAdmitted([]plan.Signed{{Name: "rpm", Amount: milli}}, now)
	}
	return s, now
}

func level(level, burst int64) func(string) (Level, bool) {
	return func(string) (Level, bool) { return Level{level * milli, burst * milli}, true }
}

func TestWantIsWhatTheHorizonNeeds(t *testing.T) {
	s, now := busy(1000, 100)
	want := s.Want(level(1000, 1000), now)
	got := amountIn(want, "rpm") / milli
	assert.InDelta(t, 80*(1-0.1353), got, 4, "0.8 of a second's calls, averaged over the two seconds there were")
	assert.Zero(t, amountIn(want, "rpm")%milli)

	s.Add(want, now)
	assert.Nil(t, s.Want(level(1000, 1000), now), "enough is held")
	for s.Held("rpm") > got*milli/4 {
		_, ok := s.Serve([]plan.Signed{{Name: "rpm", Amount: milli}}, now)
		assert.True(t, ok)
	}
	assert.True(t, s.IsLow(now))
	assert.NotEmpty(t, s.Want(level(1000, 1000), now), "a quarter is left")
}

func TestNothingIsWantedOfWhatIsScarce(t *testing.T) {
	s, now := busy(1000, 100)
	assert.Nil(t, s.Want(level(500, 1000), now), "half full")
	assert.Nil(t, s.Want(func(string) (Level, bool) { return Level{}, false }, now), "a limit that the bucket does not have")
	assert.EqualValues(t, 10*milli, amountIn(s.Want(level(510, 1000), now), "rpm"), "down to half")
	s.RecordTraffic("rpm", 10, 40, now)
	assert.EqualValues(t, 2*milli, amountIn(s.Want(level(510, 1000), now), "rpm"), "a quarter of the traffic takes a quarter of it, in whole tokens")
}

// Where a process's part of one limit is less than a token, it debits nothing of the
// others, of which no call could be served.
func TestNothingIsWantedWithoutALimit(t *testing.T) {
	s, now := New(1000), int64(0)
	for now < 2000 {
		now += 10
		s.CountAdmitted(amounts(1, 100), now)
	}
	levels := map[string]Level{"rpm": {Level: 501 * milli, Burst: 1000 * milli}, "tpm": {Level: 1_000_000 * milli, Burst: 1_000_000 * milli}}
	at := func(name string) (Level, bool) { l, ok := levels[name]; return l, ok }
	assert.EqualValues(t, milli, amountIn(s.Want(at, now), "rpm"))
	s.RecordTraffic("rpm", 1, 2, now)
	assert.Nil(t, s.Want(at, now))
}

// The largest limits there are stay within 64 bits.
func TestWantOfTheLargest(t *testing.T) {
	const largest = 1 << 40
	s, now := New(10_000), int64(0)
	for now < 20_000 {
		now++
		s.CountAdmitted([]plan.Signed{{Name: "rpm", Amount: largest * milli}}, now)
	}
	assert.EqualValues(t, (largest-largest/2)*milli, amountIn(s.Want(level(largest, largest), now), "rpm"))
	assert.Nil(t, s.Want(level(1, 1), now), "a burst of one has no half to spare")
}
