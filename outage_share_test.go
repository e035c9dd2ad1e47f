package dynalimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// What the process's share admitted at one level is given back, once, when it
// denies at another.
func TestShareOfALevelIsGivenBackWhenAnotherDenies(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{"known to be away": {Drop: true}, "out of capacity": throttled1} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &Options{Limits: []Limit{PerDay("rpm", 20)}, OnUnavailable: Local, LocalShare: 1}, func(t *testing.T, s *process) {
				s.family("key", "project")
				require.NoError(t, s.repo.SetEntityLimits(t.Context(), "project", model, []Limit{PerDay("rpm", 10)}))
				s.acquire("key", Amounts{"rpm": 1})
				s.down(fault)
				s.acquire("key", Amounts{"rpm": 9})
				for range 20 {
					denied := s.deny("key", Amounts{"rpm": 1})
					assert.Equal(t, []string{"key rpm", "project rpm"}, holders(denied.Statuses))
					assert.Equal(t, int64(9), denied.Statuses[0].Remaining, "of 20, with what was asked for")
				}
				s.db.SetFaults(nil)
				s.recovers()
			})
		})
	}
}

// The process's share admits a call if each of its limits has room, and takes
// nothing of any else.
func TestShareAdmitsByEveryLimit(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("a", 10), PerDay("b", 3), PerDay("c", 10)}, OnUnavailable: Local, LocalShare: 1}, func(t *testing.T, s *process) {
		one := Amounts{"a": 1, "b": 1, "c": 1}
		s.acquire("u", one)
		s.down(ddbmem.Fault{Drop: true})
		for range 2 {
			s.acquire("u", one)
		}
		for range 20 {
			denied := s.deny("u", one)
			assert.Equal(t, "b", denied.Primary().Limit.Name)
		}
		s.acquire("u", Amounts{"a": 7, "c": 7})
		s.recovers()
	})
}

// The process's share is the limit while the bucket does not answer, and an
// outage that comes and goes does not fill it again.
func TestLocalNeverAdmitsAboveItsShare(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 1000)}, OnUnavailable: Local, LocalShare: .25}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 400})
		admitted := int64(0)
		for range 3 {
			s.down(ddbmem.Fault{Drop: true})
			for range 200 {
				lease, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1})
				if err != nil {
					var denied *LimitExceededError
					require.ErrorAs(t, err, &denied)
					assert.Greater(t, denied.RetryAfter, time.Duration(0))
					status := denied.Primary()
					assert.True(t, status.Degraded)
					assert.Equal(t, int64(1000), status.Limit.Capacity)
					continue
				}
				admitted++
				assert.True(t, lease.Statuses()[0].Degraded)
			}
			s.recovers()
			elapse(time.Second)
		}
		assert.LessOrEqual(t, admitted, int64(150), "a quarter of the 600 that were left")
		assert.GreaterOrEqual(t, admitted, int64(149))
		charged, doubt := s.consumed(1, "rpm"), s.limiter.Health().Doubt["rpm"]
		assert.LessOrEqual(t, charged, int64(400)+admitted)
		assert.GreaterOrEqual(t, charged+doubt, int64(400)+admitted)
		assert.LessOrEqual(t, doubt, int64(3), "one write was under way when each outage began")
	})
}

// What a call turns out to use moves the share that admitted it.
func TestLocalShareFollowsCorrections(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 1000)}, OnUnavailable: Local, LocalShare: .1}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable) // and now it is known to be silent
		less, more := s.acquire(userOf(0), Amounts{"rpm": 60}), s.acquire(userOf(0), Amounts{"rpm": 30})
		s.deny(userOf(0), Amounts{"rpm": 50})
		require.NoError(t, less.Settle(t.Context(), Amounts{"rpm": 10}))
		s.acquire(userOf(0), Amounts{"rpm": 50})
		require.NoError(t, more.Rollback(t.Context()))
		more = s.acquire(userOf(0), Amounts{"rpm": 1})
		require.NoError(t, more.Adjust(t.Context(), Amounts{"rpm": 35}))
		s.deny(userOf(0), Amounts{"rpm": 10})
		s.recovers()
	})
}

// A small share has room for one call.
func TestLocalShareHasRoomForOneCall(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Local, LocalShare: .001}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		s.acquire(userOf(0), Amounts{"rpm": 5})
		s.deny(userOf(0), Amounts{"rpm": 5})
		s.recovers()
	})
}

// With nothing known, Local has only the limiter's own limits.
func TestLocalWithNothingKnown(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 2)}, OnUnavailable: Local}, func(t *testing.T, s *process) {
		s.down(ddbmem.Fault{Drop: true})
		s.acquire(userOf(0), Amounts{"rpm": 2})
		s.deny(userOf(0), Amounts{"rpm": 1})
		s.recovers()
		assert.Equal(t, int64(2), s.consumed(1, "rpm"))
	})
	virtual(t, &Options{OnUnavailable: Local}, func(t *testing.T, s *process) {
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 2})
		require.ErrorIs(t, err, ErrUnavailable)
		s.recovers()
	})
}
