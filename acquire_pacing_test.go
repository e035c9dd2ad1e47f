package dynalimit_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/observe"
)

// throttleFor throttles the writes of an entity's bucket for a time; each request is 4 ms
// under way.
func (s *process) throttleFor(entity string, d time.Duration) {
	until, match := time.Now().Add(d), writesOf(entity)
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		f := ddbmem.Fault{Before: 4 * time.Millisecond}
		if match(r.Operation, r.Body) && time.Now().Before(until) {
			f.Error = throttled1.Error
		}
		return f
	})
}

// pace takes a token when the entity's bucket is throttled, so that its lane is paced,
// and returns how long the next write has to wait: some round trips.
func (s *process) pace(entity string) time.Duration {
	s.t.Helper()
	s.throttleFor(entity, 800*time.Millisecond)
	_, err := s.limiter.Acquire(s.t.Context(), entity, model, dynalimit.Amounts{"rpm": 1})
	require.NoError(s.t, err)
	turn := s.limiter.lanes.Of(entity, model).WriteWait()
	require.Greater(s.t, turn, 12*time.Millisecond)
	return turn
}

// writesOfLog counts the writes of an entity's bucket that have executed.
func (s *process) writesOfLog(entity string) (n int) {
	match := writesOf(entity)
	for _, e := range s.db.Log() {
		if match(e.Operation, e.Body) {
			n++
		}
	}
	return n
}

// Throttling alone fails nobody before Options.Timeout: the write is decided anew
// until it lands.
func TestThrottledWriteIsDecidedAnew(t *testing.T) {
	ears := &listener{t: t, open: map[int]string{}}
	opts := perMinute()
	opts.Observer = ears.observer()
	virtual(t, opts, func(t *testing.T, s *process) {
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		ears.take()
		s.throttleFor("user-1", 900*time.Millisecond)
		began := time.Now()
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.False(t, lease.Degraded())
		assert.Greater(t, time.Since(began), 900*time.Millisecond)
		assert.Less(t, time.Since(began), 2*time.Second)
		assert.Equal(t, int64(98), s.level("user-1", "rpm"), "once")
		heard := ears.take()
		assert.Equal(t, "user-1 gpt-4: paced, writes throttled", heard[0])
		assert.Equal(t, "spend user-1 for 1: throttled after 1 (*fault.UnavailableError)", heard[1])
		assert.Equal(t, []string{"spend user-1 for 1: landed after 1", "acquire user-1 gpt-4: granted"}, heard[len(heard)-2:])

		hot := s.limiter.Health().Hottest
		require.Len(t, hot, 1)
		assert.Equal(t, dynalimit.HotBucket{EntityID: "user-1", Resource: model, Why: observe.WritesThrottled, Cause: hot[0].Cause, Interval: hot[0].Interval, LastThrottled: hot[0].LastThrottled}, hot[0])
		assert.Positive(t, hot[0].Interval)
		assert.ErrorContains(t, hot[0].Cause, "ProvisionedThroughputExceededException", "which names the reasons")
		assert.WithinRange(t, hot[0].LastThrottled, began, began.Add(910*time.Millisecond))

		elapse(3 * time.Minute)
		assert.Empty(t, s.limiter.Health().Hottest, "also if it is never used again")
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Contains(t, ears.take(), "user-1 gpt-4: not paced any more, writes throttled")
	})
}

// What is throttled for longer than Options.Timeout fails when that is over, and says
// why. Nothing was taken.
func TestThrottledBeyondTheTimeout(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.down(throttled1) // at once: nothing is under way when the time is over
		began := time.Now()
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
		assert.InDelta(t, 2*time.Second, time.Since(began), float64(20*time.Millisecond))
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.NotErrorIs(t, err, dynalimit.ErrUnconfirmed)
		var cause *types.ProvisionedThroughputExceededException
		require.ErrorAs(t, err, &cause)

		began = time.Now()
		err = lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 2})
		assert.Less(t, time.Since(began), 4*time.Second, "nor does a correction go on for ever")
		var unconfirmed *dynalimit.UnconfirmedError
		require.ErrorAs(t, err, &unconfirmed)
		assert.True(t, unconfirmed.NotWritten)
		s.db.SetFaults(nil)
		assert.Equal(t, int64(99), s.level("user-1", "rpm"))
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 2}))
		assert.Equal(t, int64(97), s.level("user-1", "rpm"))
	})
}

// A caller whose context ends is answered then, and the lane rests.
func TestLeavingAPacedLane(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.throttleFor("user-1", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := s.limiter.Acquire(ctx, "user-1", model, dynalimit.Amounts{"rpm": 1})
		require.Error(t, err)
		assert.LessOrEqual(t, time.Since(began), 700*time.Millisecond)
		elapse(5 * time.Millisecond) // the write that was under way
		require.NoError(t, s.limiter.lanes.Drain(t.Context()))
		assert.Less(t, time.Since(began), 720*time.Millisecond, "nobody waits for a turn that nobody wants")
	})
}

// Callers that come between two writes of a paced lane ride together.
func TestCallersOfAPacedLaneRideTogether(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.pace("user-1")
		interval := s.limiter.Health().Hottest[0].Interval
		var callers sync.WaitGroup
		used := s.used(func() {
			for range 50 {
				callers.Go(func() { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) })
				elapse(time.Millisecond)
			}
			callers.Wait()
		})
		assert.LessOrEqual(t, writes(used), int64(50*time.Millisecond/interval)+2)
		assert.Equal(t, int64(48), s.level("user-1", "rpm"))
	})
}

// A refused write of a paced lane is decided again at once.
func TestRefusedWriteOfAPacedLaneGoesAtOnce(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.pace("user-1")
		elapse(time.Second)
		s.clock.advance(2 * time.Hour)
		s.peer(perMinute()).acquire("user-1", dynalimit.Amounts{"rpm": 1}) // claims
		began := time.Now()
		used := s.used(func() { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) })
		assert.Equal(t, int64(1), used.Refused())
		assert.Equal(t, 12*time.Millisecond, time.Since(began), "a read of the configuration and two writes")
	})
}

// No child is debited while its parent's lane waits for its turn.
func TestPacedParentGoesFirst(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow} {
		virtual(t, perMinute(), func(t *testing.T, s *process) {
			s.family("key", "project")
			s.acquire("key", dynalimit.Amounts{"rpm": 1})
			turn := s.pace("project")
			began := time.Now()
			var done sync.WaitGroup
			done.Go(func() { s.acquire("key", dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(policy)) })
			elapse(turn - time.Millisecond)
			assert.Equal(t, int64(99), s.level("key", "rpm"), "not while its parent's lane waits")
			done.Wait()
			assert.InDelta(t, turn+4*time.Millisecond, time.Since(began), float64(time.Millisecond), "both at once then")
			assert.Equal(t, int64(98), s.level("key", "rpm"))
			assert.Equal(t, int64(97), s.level("project", "rpm"), "pace took one")

			s.pace("project")
			done.Go(func() { s.acquire("project", dynalimit.Amounts{"tpm": 6000}) })
			elapse(time.Millisecond)
			asked := s.writesOfLog("key")
			denial := s.deny("key", dynalimit.Amounts{"rpm": 1, "tpm": 6000}, dynalimit.WithOnUnavailable(policy))
			done.Wait()
			assert.Equal(t, "project", denial.Primary().EntityID)
			assert.Len(t, denial.Statuses, 4, "the child's too")
			assert.Equal(t, asked, s.writesOfLog("key"), "which was not asked")
			s.pace("project")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err := s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(policy))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			elapse(time.Second)
			assert.Equal(t, asked, s.writesOfLog("key"), "nor for a caller who left before")
			assert.Equal(t, int64(95), s.level("project", "rpm"), "which is not charged either")
		})
	}
}
