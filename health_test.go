package dynalimit_test

import (
	"bytes"
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// tells reports whether a request tells a bucket so many millitokens of a limit.
func tells(r *ddbmem.Request, millitokens string) bool {
	return r.Operation == "UpdateItem" && bytes.Contains(r.Body, []byte("_tc")) && bytes.Contains(r.Body, []byte(`"`+millitokens+`"`))
}

// What was perhaps told is in doubt, and is not told again, however long the silence lasts
// and however many others write the bucket meanwhile.
func TestWhatMayHaveBeenToldIsNotToldAgain(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{"it landed": {After: time.Hour}, "it did not": {Before: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := dynalimit.Limit{Name: "tpm", Capacity: 10_000, RefillAmount: 1, RefillPeriod: 1000 * time.Hour}
				opts := &dynalimit.Options{Limits: []dynalimit.Limit{slow}, OnUnavailable: dynalimit.Allow}
				s := liveProcess(t, memEngine(t), opts)
				s.acquire(userOf(0), dynalimit.Amounts{"tpm": 1})
				s.isCutOff(t)
				for range 5 {
					s.acquire(userOf(0), dynalimit.Amounts{"tpm": 1000})
				}
				var told atomic.Int64
				s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					switch own := r.Context.Value(otherProcess{}) == nil; {
					case !own:
						return ddbmem.Fault{}
					case tells(r, "5000000") && told.CompareAndSwap(0, time.Now().Unix()):
						return fault
					case told.Load() > 0 && time.Now().Unix()-told.Load() < 20:
						return ddbmem.Fault{Drop: true}
					}
					return ddbmem.Fault{}
				})
				elapse(15 * time.Second)
				require.Positive(t, told.Load())
				for range 12 { // in every slot
					p := s.peer(opts)
					_, err := p.limiter.Acquire(context.WithValue(t.Context(), otherProcess{}, true), userOf(0), model, dynalimit.Amounts{"tpm": 1})
					require.NoError(t, err)
				}
				elapse(2 * time.Minute)
				landed := int64(0)
				if name == "it landed" {
					landed = 5000
				}
				assert.Equal(t, 13+landed, s.consumed(1, "tpm"))
				assert.Equal(t, int64(9987), s.level(userOf(0), "tpm"))
				assert.Equal(t, dynalimit.Amounts{"tpm": 5000}, s.limiter.Health().Doubt)
				assert.Empty(t, s.limiter.Health().Waiting)
			})
		})
	}
}

// Health counts what is under way, for as long as it is.
func TestHealthCountsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("tpm", 10_000)}, OnUnavailable: dynalimit.Allow})
		s.acquire(userOf(0), dynalimit.Amounts{"tpm": 1})
		s.isCutOff(t)
		s.acquire(userOf(0), dynalimit.Amounts{"tpm": 5000})
		assert.Equal(t, dynalimit.Amounts{"tpm": 5000}, s.limiter.Health().Waiting)
		var told atomic.Bool
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if tells(r, "5000000") {
				told.Store(true)
			}
			return ddbmem.Fault{Before: 900 * time.Millisecond}
		})
		for !told.Load() {
			elapse(time.Millisecond)
		}
		assert.Equal(t, dynalimit.Amounts{"tpm": 5000}, s.limiter.Health().Waiting, "it is under way")
		assert.Equal(t, 1, s.limiter.Health().WaitingBuckets)
		elapse(time.Second)
		assert.Empty(t, s.limiter.Health().Waiting)
		assert.Empty(t, s.limiter.Health().Doubt)
		s.recovers()
	})
}

// An entity of which nothing is known is counted when its configuration is, at every level of
// its cascade, as its lease corrects it meanwhile.
func TestEntityThatWasNotKnownIsCountedOnceItIs(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}))
		s.family("key", "project")
		s.down(ddbmem.Fault{Drop: true})
		kept, settled, rolled := s.acquire("key", dynalimit.Amounts{"rpm": 100}), s.acquire("key", dynalimit.Amounts{"rpm": 100}), s.acquire("key", dynalimit.Amounts{"rpm": 100})
		require.NoError(t, settled.Settle(t.Context(), dynalimit.Amounts{"rpm": 30}))
		require.NoError(t, rolled.Rollback(t.Context()))
		require.NoError(t, kept.Consume(t.Context(), dynalimit.Amounts{"rpm": 7}))
		assert.Equal(t, dynalimit.Amounts{"rpm": 137}, s.limiter.Health().Waiting)
		assert.True(t, kept.Degraded())
		s.recovers()
		for _, id := range []string{"key", "project"} {
			assert.Equal(t, int64(137), s.stored(id, "rpm").Consumed/milli)
			assert.Equal(t, int64(100), s.level(id, "rpm"))
		}
		assert.Equal(t, int64(137), s.stored("key", "rpm").Passed/milli)
		assert.Zero(t, s.stored("project", "rpm").Passed)
		assert.Empty(t, s.limiter.Health().Dropped)
		require.NoError(t, kept.Settle(t.Context(), dynalimit.Amounts{"rpm": 50}))
		s.recovers()
		assert.Equal(t, int64(80), s.stored("project", "rpm").Consumed/milli)
		assert.Equal(t, int64(80), s.stored("key", "rpm").Passed/milli)
		assert.Equal(t, int64(100), s.level("key", "rpm"))
	})
}

// A bucket that does not answer is left alone, however many others are used meanwhile.
func TestSilentBucketIsRememberedAmongMany(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow, MaxBuckets: 2}, func(t *testing.T, s *process) {
		s.silence(userOf(0))
		for range 3 {
			s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
			for i := range 5 {
				s.acquire(userOf(1+i), dynalimit.Amounts{"rpm": 1})
			}
			elapse(5 * time.Second)
		}
		h := s.limiter.Health()
		assert.Equal(t, 1, h.SilentBuckets)
		assert.Equal(t, dynalimit.Amounts{"rpm": 3 + 1}, h.Waiting, "with what is under way")
		assert.Empty(t, h.Doubt)
		s.recovers()
		elapse(time.Minute)
		assert.Equal(t, 0, s.limiter.Health().SilentBuckets)
	})
}

// A bucket whose read is not answered opens, as one whose write is not.
func TestBucketWhoseReadIsSilentOpens(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, MaxBuckets: 2}, func(t *testing.T, s *process) {
		for i := range 4 { // the first is forgotten, and will be read
			s.acquire(userOf(i), dynalimit.Amounts{"rpm": 1})
		}
		s.silence(userOf(0))
		defer s.readsOthers()() // the table answers
		for _, took := range []time.Duration{time.Second, 0} {
			began := time.Now()
			_, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1})
			require.ErrorIs(t, err, dynalimit.ErrUnavailable)
			assert.Equal(t, took, time.Since(began))
		}
		assert.Equal(t, 1, s.limiter.Health().SilentBuckets)
		s.recovers()
	})
}

// A table that answers, and takes nothing, is asked ever more seldom; calls are not delayed.
func TestWritesOfWhatWaitsBackOff(t *testing.T) {
	for _, code := range []string{"ExpiredTokenException", "AccessDeniedException", "ThrottlingException"} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow})
				const keys = 26
				for i := range keys {
					s.acquire(userOf(i), dynalimit.Amounts{"rpm": 1})
				}
				s.isCutOff(t)
				for i := range keys {
					s.acquire(userOf(i), dynalimit.Amounts{"rpm": 10})
				}
				var requests atomic.Int64
				s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
					requests.Add(1)
					return ddbmem.Fault{Error: &ddbmem.Error{Code: code}}
				})
				elapse(10 * time.Minute)
				assert.Less(t, requests.Load(), int64(300), "about 130 with its jitter; without backing off it is 50 a second")
				assert.Equal(t, keys, s.limiter.Health().WaitingBuckets)
				s.db.SetFaults(nil)
				elapse(15 * time.Second)
				assert.Zero(t, s.limiter.Health().WaitingBuckets)
				assert.Equal(t, int64(11*keys), s.consumed(keys, "rpm"))
			})
		})
	}
}

// What waits is written 50 a second, by all limiters of a repository together, and the calls
// of its buckets do not wait for it.
func TestWhatWaitsIsWrittenInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}
		s := liveProcess(t, memEngine(t), opts)
		second := s.on(s.repo, opts)
		s.isCutOff(t)
		const keys = 150
		user := func(i int) string { return "user-" + strconv.Itoa(i) }
		for i := range keys {
			s.acquire(user(i), dynalimit.Amounts{"rpm": 10})
			second.acquire(user(i), dynalimit.Amounts{"rpm": 10})
		}
		var last, most, within atomic.Int64
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if now := time.Now().Unix(); last.Swap(now) != now {
				within.Store(0)
			}
			if tells(r, "10000") {
				most.Store(max(most.Load(), within.Add(1)))
			}
			return ddbmem.Fault{Before: 2 * time.Millisecond}
		})
		for s.limiter.Health().Open {
			elapse(time.Millisecond)
		}
		began := time.Now()
		s.acquire(user(keys-1), dynalimit.Amounts{"rpm": 1})
		assert.Less(t, time.Since(began), 20*time.Millisecond)
		for s.limiter.Health().WaitingBuckets+second.limiter.Health().WaitingBuckets > 0 {
			elapse(100 * time.Millisecond)
		}
		s.recovers()
		second.recovers()
		assert.LessOrEqual(t, most.Load(), int64(51))
		assert.Greater(t, most.Load(), int64(30))
		for i := range keys - 1 {
			assert.Equal(t, int64(20), s.stored(user(i), "rpm").Consumed/milli)
		}
	})
}

// What waits for a bucket that does not answer is not written into its silence, and what
// waits for others is written meanwhile.
func TestWhatWaitsForASilentBucketIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow})
		for i := range 2 {
			s.acquire(userOf(i), dynalimit.Amounts{"rpm": 1})
		}
		s.isCutOff(t)
		for i := range 2 {
			s.acquire(userOf(i), dynalimit.Amounts{"rpm": 10})
		}
		s.limiter.lanes.Of(userOf(0), model).Trip(context.DeadlineExceeded)
		stop := s.readsOthers()
		s.db.SetFaults(s.silenceOf(userOf(0), ddbmem.Fault{Before: time.Hour}))
		elapse(time.Minute)
		h := s.limiter.Health()
		assert.Equal(t, dynalimit.Amounts{"rpm": 10}, h.Waiting)
		assert.Empty(t, h.Doubt)
		assert.Equal(t, int64(11), s.stored(userOf(1), "rpm").Consumed/milli)
		s.recovers()
		stop()
		assert.Equal(t, int64(22), s.consumed(2, "rpm"))
	})
}
