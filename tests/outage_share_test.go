package tests

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/backlog"
)

// What the process's share admitted at one level is given back, once, when it
// denies at another.
func TestShareOfALevelIsGivenBackWhenAnotherDenies(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 20)}, OnUnavailable: dynalimit.Local, LocalShare: 1}, func(t *testing.T, s *process) {
		s.family("key", "project")
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "project", Resource: model}, []dynalimit.Limit{dynalimit.PerDay("rpm", 10)}))
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		s.acquire("key", dynalimit.Amounts{"rpm": 9})
		for range 20 {
			denied := s.deny("key", dynalimit.Amounts{"rpm": 1})
			assert.Equal(t, []string{"key rpm", "project rpm"}, holders(denied.Statuses))
			assert.Equal(t, int64(9), denied.Statuses[0].Remaining, "of 20, with what was asked for")
		}
		s.recovers()
	})
}

// The process's share admits a call if each of its limits has room, and takes
// nothing of any else.
func TestShareAdmitsByEveryLimit(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("a", 10), dynalimit.PerDay("b", 3), dynalimit.PerDay("c", 10)}, OnUnavailable: dynalimit.Local, LocalShare: 1}, func(t *testing.T, s *process) {
		one := dynalimit.Amounts{"a": 1, "b": 1, "c": 1}
		s.acquire("u", one)
		s.down(ddbmem.Fault{Drop: true})
		for range 2 {
			s.acquire("u", one)
		}
		for range 20 {
			denied := s.deny("u", one)
			assert.Equal(t, "b", denied.Primary().Limit.Name)
		}
		s.acquire("u", dynalimit.Amounts{"a": 7, "c": 7})
		s.recovers()
	})
}

// The process's share is the limit while the bucket does not answer, and an
// outage that comes and goes does not fill it again.
func TestLocalNeverAdmitsAboveItsShare(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, OnUnavailable: dynalimit.Local, LocalShare: .25}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 400})
		admitted := int64(0)
		for range 3 {
			s.down(ddbmem.Fault{Drop: true})
			for range 200 {
				lease, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1})
				if err != nil {
					var denied *dynalimit.LimitExceededError
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
		assert.LessOrEqual(t, doubt, int64(3*3), "the tries of one write were under way when each outage began")
	})
}

// What a call turns out to use moves the share that admitted it.
func TestLocalShareFollowsCorrections(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, OnUnavailable: dynalimit.Local, LocalShare: .1}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Block))
		require.ErrorIs(t, err, dynalimit.ErrUnavailable) // and now it is known to be silent
		less, more := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 60}), s.acquire(userOf(0), dynalimit.Amounts{"rpm": 30})
		s.deny(userOf(0), dynalimit.Amounts{"rpm": 50})
		require.NoError(t, less.Settle(t.Context(), dynalimit.Amounts{"rpm": 10}))
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 50})
		require.NoError(t, more.Rollback(t.Context()))
		more = s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		require.NoError(t, more.Adjust(t.Context(), dynalimit.Amounts{"rpm": 35}))
		s.deny(userOf(0), dynalimit.Amounts{"rpm": 10})
		s.recovers()
	})
}

// A lease of a limiter that was closed corrects nothing, nor the share that the next limiter
// on the repository goes on with.
func TestShareOutlivesALimiterThatIsClosed(t *testing.T) {
	options := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Local, LocalShare: 1}
	virtual(t, options, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 60})
		next, err := newLimiter(s.repo, options)
		require.NoError(t, err)
		_ = s.limiter.Close(t.Context())
		for range 3 {
			require.ErrorIs(t, lease.Rollback(t.Context()), dynalimit.ErrClosed)
		}
		s.limiter = next
		s.deny(userOf(0), dynalimit.Amounts{"rpm": 60})
		s.recovers()
	})
}

// A small share has room for one call.
func TestLocalShareHasRoomForOneCall(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Local, LocalShare: .001}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 5})
		s.deny(userOf(0), dynalimit.Amounts{"rpm": 5})
		s.recovers()
	})
}

// While there is no room for the queues of another bucket, its calls fail as under Block.
func TestLocalWithoutRoomBlocks(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Local}, func(t *testing.T, s *process) {
		p := s.on(s.repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Local})
		p.limiter.lanes.Queues = backlog.NewQueues(1)
		p.isCutOff(t)
		p.acquire(userOf(0), dynalimit.Amounts{"rpm": 10})
		_, err := p.limiter.Acquire(t.Context(), userOf(1), model, dynalimit.Amounts{"rpm": 10})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		p.recovers()
	})
}

// A Wait that the process's share denies sleeps until its queue has room, or until the bucket
// answers again.
func TestWaitUnderLocalSleepsForItsQueue(t *testing.T) {
	for name, back := range map[string]bool{"the queue": false, "the bucket": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var looks atomic.Int64
				clock := func() time.Time {
					if looks.Add(1) > 5000 {
						panic("a Wait spins")
					}
					return time.Now()
				}
				s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}, OnUnavailable: dynalimit.Local, Now: clock})
				s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
				s.isCutOff(t)
				s.acquire(userOf(0), dynalimit.Amounts{"rpm": 99})
				began := time.Now()
				if back {
					time.AfterFunc(2*time.Second, func() { s.db.SetFaults(nil) })
				}
				lease, err := s.limiter.Wait(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 50})
				require.NoError(t, err)
				assert.Equal(t, !back, lease.Degraded())
				if back {
					assert.Less(t, time.Since(began), 15*time.Second, "the probe's schedule")
				} else {
					assert.InDelta(t, 30, time.Since(began).Seconds(), 1)
				}
				assert.Less(t, looks.Load(), int64(200))
				s.recovers()
			})
		})
	}
}
