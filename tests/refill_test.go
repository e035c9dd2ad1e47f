package tests

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// Idle time must not be spent from a stale image and then credited again.
func TestIdleThenBurstAdmitsTheBurst(t *testing.T) {
	for _, idle := range []time.Duration{30 * time.Second, 10 * time.Minute, 3 * time.Hour} {
		testEngines(t, func(t *testing.T, e *engine) {
			s := newProcess(t, e, perMinute())
			processes := []*process{s, s.peer(perMinute()), s.peer(perMinute())}
			for _, p := range processes {
				p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
			}
			s.clock.advance(idle)
			admitted := 0
			for range 60 {
				for _, p := range processes {
					admitted += p.allowed(1, "user-1", "rpm")
				}
			}
			assert.Equal(t, 100, admitted)
		})
	}
}

func TestDrainedIdleThenBurstAdmitsTheRefill(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		s.acquire("user-1", dynalimit.Amounts{"rpm": 99})
		p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.clock.advance(30 * time.Second)
		assert.Equal(t, 50, s.allowed(40, "user-1", "rpm")+p.allowed(40, "user-1", "rpm"))
	})
}

// Two processes that take turns are given a full bucket once, however long it idled.
func TestTwoProcessesShareAFullBucketAfterIdling(t *testing.T) {
	pair(t, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}, func(t *testing.T, a, b *process) {
		a.acquire("key", dynalimit.Amounts{"rpm": 1})
		for _, idle := range []time.Duration{time.Minute, 10 * time.Minute, 3 * time.Hour} {
			elapse(idle)
			assert.Equal(t, 100, a.allowed(150, "key", "rpm"), "after %v", idle)
			assert.Equal(t, 0, b.allowed(1, "key", "rpm"))
		}
	})
}

// Two processes share what a drained bucket regains: the refill, once.
func TestTwoProcessesShareARefill(t *testing.T) {
	pair(t, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}, func(t *testing.T, a, b *process) {
		assert.Equal(t, 100, a.allowed(150, "key", "rpm"))
		elapse(time.Minute)
		assert.Equal(t, 100, b.allowed(150, "key", "rpm"))
		assert.Equal(t, 0, a.allowed(1, "key", "rpm"))
		elapse(30 * time.Second)
		assert.Equal(t, 50, a.allowed(150, "key", "rpm"))
		assert.Equal(t, 0, b.allowed(1, "key", "rpm"))
	})
}

// A slow limit beside a fast one gets every millitoken of its refill.
func TestSlowLimitIsNotStarvedByAFastOne(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60).WithBurst(1), dynalimit.PerDay("rpd", 10)}})
		s.acquire("user-1", dynalimit.Amounts{"rpd": 10})
		for range 500 {
			s.clock.advance(20 * time.Second)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		}
		now := s.clock.now().UnixMilli()
		image := s.image("user-1")
		grid := func(ms int64) int64 { return ms * 10_000 / 86_400_000 }
		want := grid(now) - grid(noon().UnixMilli())
		assert.Equal(t, int64(1157), want)
		assert.Equal(t, want, image.State(image.Set.Index("rpd")).Level(now), "of 10,000 s")
	})
}

// A slow limit beside a fast one, for they share one refill instant: 138
// millitokens in 12 s, whoever writes how often.
func TestTwoProcessesShareTheRefillOfASlowLimit(t *testing.T) {
	pair(t, []dynalimit.Limit{dynalimit.PerDay("day", 1000), dynalimit.PerSecond("rps", 50)}, func(t *testing.T, a, b *process) {
		require.NoError(t, a.acquire("key", dynalimit.Amounts{"day": 1000}).Adjust(t.Context(), dynalimit.Amounts{"rps": 1}))
		began := time.Now()
		for i := 0; time.Since(began) < 12*time.Second; i++ {
			[]*process{a, b}[i%2].acquire("key", dynalimit.Amounts{"rps": 1})
			elapse(25 * time.Millisecond)
		}
		image := a.image("key")
		day := image.State(image.Set.Index("day"))
		until := began.Add(12 * time.Second).UnixMilli()
		grid := func(t, amount, period int64) int64 { return t/period*amount + t%period*amount/period }
		assert.Equal(t, grid(until, 1_000_000, 86_400_000)-grid(began.UnixMilli(), 1_000_000, 86_400_000), day.Level(until))
		assert.InDelta(t, 138, day.Level(until), 1)
	})
}

// One now per decision: no refill falls between two clock reads.
func TestLatencyLosesNoRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		opts := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)}}
		s := liveProcess(t, e, opts)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 60})
		s.down(ddbmem.Fault{Before: 10 * time.Millisecond, After: 10 * time.Millisecond})
		defer s.db.SetFaults(nil)
		admitted := 0
		for began := time.Now(); time.Since(began) < 60*time.Second; {
			elapse(30 * time.Millisecond)
			admitted += s.allowed(1, "user-1", "rpm")
		}
		assert.GreaterOrEqual(t, admitted, 59)
		assert.LessOrEqual(t, admitted, 60)
	})
}

// Exhaust, wait, acquire: on the path of every write.
func TestExhaustWaitAcquire(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		for _, pause := range []time.Duration{0, 30 * time.Second, 2 * time.Hour} { // creates, spends, claims
			s.clock.advance(pause)
			report, err := s.limiter.Check(t.Context(), "key", model, nil)
			require.NoError(t, err)
			s.acquire("key", dynalimit.Amounts{"tpm": report.Statuses[1].Remaining})
			for range 3 {
				exceeded := s.deny("key", dynalimit.Amounts{"tpm": 1000})
				assert.Equal(t, 6*time.Second, exceeded.RetryAfter)
				s.clock.advance(exceeded.RetryAfter)
				s.acquire("key", dynalimit.Amounts{"tpm": 1000})
			}
		}
	})
}

// However long a bucket is idle, no more than the burst is stored by a claim.
func TestClaimStoresNoMoreThanTheBurst(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerSecond("fast", maxTokens)}})
		s.acquire("user-1", dynalimit.Amounts{"rpm": 50, "fast": maxTokens})
		for _, idle := range []time.Duration{2 * time.Hour, 400 * 24 * time.Hour} {
			s.clock.advance(idle)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "fast": 1})
			assert.Equal(t, s.clock.now().UnixMilli(), s.image("user-1").Refilled)
			assert.Equal(t, int64(99_000), s.stored("user-1", "rpm").Tokens)
			assert.Equal(t, int64(maxTokens-1)*milli, s.stored("user-1", "fast").Tokens)
		}
	})
}
