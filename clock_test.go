package dynalimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// Clients whose clocks differ, taking turns, do not multiply the rate.
func TestSkewedClocksDoNotMultiplyTheRate(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		ahead := newHandClock()
		ahead.advance(2 * time.Second)
		opts := &Options{Limits: []Limit{PerMinute("rpm", 60)}}
		s := newProcess(t, e, opts)
		p := s.peer(opts, ahead)
		s.acquire("user-1", Amounts{"rpm": 60})
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
		s.acquire("user-1", Amounts{"rpm": 90})
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
			repo, err := NewRepository(db.Client(), "limits", &RepositoryOptions{Principal: tester})
			require.NoError(t, err)
			require.NoError(t, repo.CreateTable(t.Context()))
			l, err := New(repo, &Options{Limits: []Limit{PerMinute("rpm", 60)}})
			require.NoError(t, err)
			_, err = l.Available(t.Context(), "u", "m") // learns the time
			require.NoError(t, err)
			drain(t, l, Amounts{"rpm": 60})
			image := l.lanes.Of("u", "m").Image()
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
			repo, err := NewRepository(db.Client(), "limits", &RepositoryOptions{Principal: tester})
			require.NoError(t, err)
			require.NoError(t, repo.CreateTable(t.Context()))
			l, err := New(repo, &Options{Limits: []Limit{PerMinute("rpm", 60)}})
			require.NoError(t, err)
			drain(t, l, Amounts{"rpm": 60})
			<-time.After(3 * time.Second)
			drain(t, l, Amounts{"rpm": 3})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began := time.Now()
			_, err = l.Wait(ctx, "u", "m", Amounts{"rpm": 25})
			require.ErrorIs(t, err, ErrLimitExceeded, "25 s do not fit into 10 s")
			require.Zero(t, time.Since(began), "skew %v", skew)
			_, err = l.Wait(ctx, "u", "m", Amounts{"rpm": 7})
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
		repo := e.repository(t, &RepositoryOptions{Now: func() time.Time { return time.Now().Add(-back) }})
		require.NoError(t, repo.SetSystemLimits(t.Context(), []Limit{PerDay("rpm", 100)}, nil))
		l, err := New(repo, nil)
		require.NoError(t, err)
		other, err := New(e.open(t, repo.Table(), &RepositoryOptions{Now: time.Now}), nil)
		require.NoError(t, err)
		other.lanes.IDs.Slot = 1
		lease, err := other.Acquire(t.Context(), "u", "m", Amounts{"rpm": 60})
		require.NoError(t, err)
		_, err = l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 40})
		require.NoError(t, err)
		require.NoError(t, lease.Rollback(t.Context()))
		back = 10 * time.Second
		_, err = l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 50})
		require.NoError(t, err)
	})
}
