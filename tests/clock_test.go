package tests

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// Clients whose clocks differ, taking turns, do not multiply the rate.
func TestSkewedClocksDoNotMultiplyTheRate(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		ahead := newHandClock()
		ahead.advance(2 * time.Second)
		opts := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)}}
		s := newProcess(t, e, opts)
		p := s.peer(opts, ahead)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 60})
		admitted, refilled := 0, int64(0)
		for range 300 {
			for _, process := range []*process{s, p} {
				process.clock.advance(200 * time.Millisecond)
				admitted += process.allowed(1, "user-1", "rpm")
				rf := s.image("user-1").Refilled
				require.GreaterOrEqual(t, rf, refilled, "the refill instant never goes back")
				refilled = rf
			}
		}
		assert.LessOrEqual(t, admitted, 60+2, "a clock ahead adds its own refill, once")
		assert.GreaterOrEqual(t, admitted, 60)
	})
}

// A clock that jumps back grants nothing, and takes nothing.
func TestClockSetBack(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.acquire("user-1", dynalimit.Amounts{"rpm": 90})
		s.clock.advance(-time.Hour)
		assert.Equal(t, 10, s.allowed(20, "user-1", "rpm"))
		s.clock.advance(time.Hour + 6*time.Second)
		assert.Equal(t, 10, s.allowed(20, "user-1", "rpm"))
	})
}

// What a process with a wrong clock writes is worth the same to others: its
// instants are DynamoDB's.
func TestBucketsHoldDynamoDBsTime(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Minute, -time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			theirs := func() time.Time { return time.Now().Add(skew) }
			db := ddbmem.New(ddbmem.WithClock(theirs))
			t.Cleanup(db.Close)
			repo, err := openRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: tester})
			require.NoError(t, err)
			require.NoError(t, repo.CreateTable(t.Context()))
			l, err := newLimiter(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)}})
			require.NoError(t, err)
			_, err = availableOf(l.Check(t.Context(), "u", "m", nil)) // learns the time
			require.NoError(t, err)
			drain(t, l, dynalimit.Amounts{"rpm": 60})
			known := lane.BesideOf(l.lanes.Of("u", "m"))
			image := known.Memory(nil).Image
			require.InDelta(t, theirs().UnixMilli(), image.Refilled, 1000, "skew %v", skew)
		})
	}
}

// A wait fits into a deadline or does not by durations: the deadline is of the
// local clock, the wait of DynamoDB's.
func TestWaitComparesDurationsUnderSkew(t *testing.T) {
	for _, skew := range []time.Duration{5 * time.Second, time.Hour, -20 * time.Second, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			db := ddbmem.New(ddbmem.WithClock(func() time.Time { return time.Now().Add(skew) }))
			t.Cleanup(db.Close)
			repo, err := openRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: tester})
			require.NoError(t, err)
			require.NoError(t, repo.CreateTable(t.Context()))
			l, err := newLimiter(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)}})
			require.NoError(t, err)
			drain(t, l, dynalimit.Amounts{"rpm": 60})
			<-time.After(3 * time.Second)
			drain(t, l, dynalimit.Amounts{"rpm": 3})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began := time.Now()
			_, err = l.Wait(ctx, "u", "m", dynalimit.Amounts{"rpm": 25})
			require.ErrorIs(t, err, dynalimit.ErrLimitExceeded, "25 s do not fit into 10 s")
			require.Zero(t, time.Since(began), "skew %v", skew)
			_, err = l.Wait(ctx, "u", "m", dynalimit.Amounts{"rpm": 7})
			require.NoError(t, err, "7 s fit into 10 s")
			require.InDelta(t, 7, time.Since(began).Seconds(), 1)
		})
	}
}

// An image that was seen later than now, for the clock went back, is not recent.
func TestMemoryOfTheFutureDeniesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		back := time.Duration(0)
		repo := e.repository(t, &dynalimit.RepositoryOptions{Now: func() time.Time { return time.Now().Add(-back) }})
		require.NoError(t, repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}))
		l, err := newLimiter(repo, nil)
		require.NoError(t, err)
		other, err := newLimiter(e.open(t, repo.Table(), &dynalimit.RepositoryOptions{Now: time.Now}), nil)
		require.NoError(t, err)
		other.lanes.IDs.Slot = 1
		lease, err := other.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 60})
		require.NoError(t, err)
		_, err = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 40})
		require.NoError(t, err)
		require.NoError(t, lease.Rollback(t.Context()))
		back = 10 * time.Second
		_, err = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 50})
		require.NoError(t, err)
	})
}

// So does one whose clock was ahead until an answer corrected it: what that request read is
// of the future.
func TestTransactionsAfterTheClockWasCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Duration(0)
		theirs := func() time.Time { return time.Now().Add(-ahead) }
		e := memEngine(t, ddbmem.WithClock(theirs))
		other := liveProcess(t, e, nil)
		other.family("key", "org")
		require.NoError(t, other.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
		s := other.on(e.open(t, other.repo.table, nil), &dynalimit.Options{Cascade: dynalimit.CascadeTransaction})
		peer := other.on(e.open(t, other.repo.table, &dynalimit.RepositoryOptions{Now: theirs}), nil).inSlot(1)
		for range 3 {
			s.acquire("key", dynalimit.Amounts{"rpm": 1})
			elapse(10 * time.Second)
		}
		ahead = 30 * time.Second
		_, err := s.limiter.Check(t.Context(), "key", "claude-3", nil)
		require.NoError(t, err)
		_, err = peer.limiter.Acquire(t.Context(), "key", "claude-3", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err)
		before := s.db.Meter()
		for range 40 {
			_, err := s.limiter.Acquire(t.Context(), "key", "claude-3", dynalimit.Amounts{"rpm": 1})
			require.NoError(t, err)
			elapse(time.Second)
		}
		assert.LessOrEqual(t, s.db.Meter().Sub(before).Requests(), int64(40+5))
	})
}

// A process that makes a bucket with a slow clock adds the refill of the time by which it is
// slow, once, and no more.
func TestSlowClockAddsItsOwnRefillOnce(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		opts := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}}
		for slow, most := range map[time.Duration]int{30 * time.Second: 150, 5 * time.Minute: 200} {
			s := newProcess(t, e, opts)
			late := newHandClock()
			late.advance(-slow)
			p := s.peer(opts, late)
			admitted := p.allowed(200, "user-1", "rpm")
			require.Equal(t, 100, admitted)
			for range 3 {
				admitted += s.allowed(200, "user-1", "rpm") + p.allowed(200, "user-1", "rpm")
			}
			assert.Equal(t, most, admitted, "slow by %v", slow)
		}
	})
}
