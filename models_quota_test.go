package dynalimit_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// pacific is the zone of the quotas of these tests.
const pacific = "America/Los_Angeles"

// advanceTo moves the clock of hand to an instant.
func (s *process) advanceTo(at string) {
	s.t.Helper()
	t, err := time.Parse(time.RFC3339, at)
	require.NoError(s.t, err)
	s.clock.advance(t.Sub(s.clock.now()))
}

// A quota is full again where the next window of its calendar begins, not before, and says so.
func TestQuotaIsFullAgainAtMidnight(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		ctx := t.Context()
		s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, pacific), dynalimit.PerMinute("rpm", 1000))
		s.advanceTo("2099-01-23T19:00:00Z")
		lease := s.acquire("key", dynalimit.Amounts{"usd": 70, "rpm": 1})
		require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"usd": -10}))
		assert.EqualValues(t, 40, s.levelOn("key", model, "usd"))
		p := s.peer(nil) // which knows of no estimate
		_, err := p.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"usd": 41})
		assert.Equal(t, time.Second, s.denied(err).RetryAfter, "the other process may give back")
		s.clock.advance(30 * time.Second)
		_, err = p.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"usd": 41})
		exceeded := s.denied(err)
		assert.Equal(t, 13*time.Hour-30*time.Second, exceeded.RetryAfter, "midnight there")
		assert.Equal(t, dynalimit.DailyQuota("usd", 100, pacific), exceeded.Primary().Limit)

		s.advanceTo("2099-01-24T07:59:59.999Z")
		_, err = p.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"usd": 41})
		assert.Equal(t, time.Millisecond, s.denied(err).RetryAfter)
		s.clock.advance(time.Millisecond)
		s.acquire("key", dynalimit.Amounts{"usd": 41, "rpm": 1})
		assert.EqualValues(t, 59, s.levelOn("key", model, "usd"), "what was left of the day before is gone")
		require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"usd": 5}))
		assert.EqualValues(t, 59, s.levelOn("key", model, "usd"), "what is given back of the day before fills nothing")
		assert.EqualValues(t, 46, s.storedOn("key", model, "usd").Consumed/milli)
		_, err = s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"usd": 101})
		require.ErrorIs(t, err, dynalimit.ErrExceedsBurst)
	})
}

// What is used of a day stays used, whatever its limit becomes: more or less, another window or
// zone, a token bucket, and a quota again.
func TestWhatIsUsedOfAQuotaStaysUsed(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		s.advanceTo("2099-01-23T19:00:00Z") // a Friday
		for _, step := range []struct {
			limit dynalimit.Limit
			take  int64
			level int64 // after the take
		}{
			{dynalimit.DailyQuota("usd", 50, pacific), 30, 20},
			{dynalimit.DailyQuota("usd", 25, pacific), 0, -5},
			{dynalimit.DailyQuota("usd", 100, pacific), 50, 20},
			{dynalimit.WeeklyQuota("usd", 100, pacific), 5, 15},
			{dynalimit.DailyQuota("usd", 100, "Asia/Tokyo"), 5, 10}, // it is Saturday there
			{dynalimit.DailyQuota("usd", 100, pacific), 5, 5},
			{dynalimit.PerDay("usd", 200), 5, 100},
			{dynalimit.MonthlyQuota("usd", 150, "UTC"), 10, 40},
		} {
			s.limits(admin.Scope{Everyone: true}, step.limit)
			s.acquire("key", dynalimit.Amounts{"usd": step.take, "rpm": 0}, dynalimit.WithIgnoreUnknown())
			if step.take == 0 { // a denial brings the limit too
				s.deny("key", dynalimit.Amounts{"usd": 1})
			}
			assert.Equal(t, step.level, s.levelOn("key", model, "usd"), "%v", step.limit)
		}
		assert.EqualValues(t, 110, s.stored("key", "usd").Consumed/milli)
		s.advanceTo("2099-02-01T00:00:00Z")
		s.acquire("key", dynalimit.Amounts{"usd": 150})
	})
}

// Debt is carried into the windows that follow, and what is charged lands in the window in force.
func TestDebtOfAQuotaIsCarried(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		ctx := t.Context()
		s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, pacific))
		s.advanceTo("2099-01-23T19:00:00Z")
		lease := s.acquire("key", dynalimit.Amounts{"usd": 60})
		s.advanceTo("2099-01-24T19:00:00Z")
		require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"usd": 330}))
		assert.EqualValues(t, -230, s.levelOn("key", model, "usd"))
		assert.Equal(t, 2*24*time.Hour+13*time.Hour, s.deny("key", dynalimit.Amounts{"usd": 50}).RetryAfter, "the third midnight")
		s.advanceTo("2099-01-25T19:00:00Z")
		require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"usd": 0}))
		assert.EqualValues(t, -130, s.levelOn("key", model, "usd"), "nothing is given back of days that are over")
		s.advanceTo("2099-01-28T08:00:00Z")
		s.acquire("key", dynalimit.Amounts{"usd": 100})
		require.NoError(t, s.limiter.Close(ctx)) // it is told beside the lane what comes off the counter
		assert.EqualValues(t, 100, s.stored("key", "usd").Consumed/milli)
	})
}

// What is granted to a window is there for that window alone, once, above what it allows too.
func TestGrantedToAWindow(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		buckets := s.repo.admin().Buckets
		grant := func(id string, n int64) {
			done, err := buckets.GrantWindow(t.Context(), "key", model, id, dynalimit.Amounts{"usd": n})
			require.NoError(t, err)
			assert.Equal(t, n, done.After["usd"]-done.Before["usd"])
		}
		s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, pacific), dynalimit.PerDay("rpm", 10))
		s.advanceTo("2099-01-23T19:00:00Z")
		s.acquire("key", dynalimit.Amounts{"usd": 100, "rpm": 1})
		grant("ticket-1", 50)
		grant("ticket-1", 50)
		s.acquire("key", dynalimit.Amounts{"usd": 50})
		s.deny("key", dynalimit.Amounts{"usd": 1})
		grant("ticket-2", 30)
		s.advanceTo("2099-01-24T08:00:00Z")
		grant("ticket-3", 20) // before anybody called on that day
		s.acquire("key", dynalimit.Amounts{"usd": 100})
		s.acquire("key", dynalimit.Amounts{"usd": 20})
		s.deny("key", dynalimit.Amounts{"usd": 1})
		s.advanceTo("2099-01-25T08:00:00Z")
		s.acquire("key", dynalimit.Amounts{"usd": 100})
		s.deny("key", dynalimit.Amounts{"usd": 1})
		_, err := buckets.GrantWindow(t.Context(), "key", model, "ticket-4", dynalimit.Amounts{"rpm": 1})
		requireInvalid(t, err, "amounts[rpm]")
		_, err = buckets.Reset(t.Context(), "key", model, "ticket-5", "usd")
		require.NoError(t, err)
		s.acquire("key", dynalimit.Amounts{"usd": 100})
		_, err = buckets.TopUp(t.Context(), "key", model, "ticket-6", dynalimit.Amounts{"usd": 500})
		require.NoError(t, err)
		assert.EqualValues(t, 100, s.levelOn("key", model, "usd"), "a top-up stops at what it allows")
	})
}

// A call that names a quota is served by its bucket, whatever is debited ahead for others.
func TestQuotaIsNotDebitedAhead(t *testing.T) {
	virtual(t, &dynalimit.Options{Prefetch: time.Second}, func(t *testing.T, s *process) {
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerSecond("rpm", 1000), dynalimit.DailyQuota("usd", 100_000, pacific))
		for range 50 {
			s.acquire("key", dynalimit.Amounts{"rpm": 1, "usd": 1})
			s.clock.advance(5 * time.Millisecond)
			elapse(5 * time.Millisecond)
		}
		assert.EqualValues(t, 50, s.stored("key", "usd").Consumed/milli)
		used := s.used(func() { s.acquire("key", dynalimit.Amounts{"rpm": 1, "usd": 1}) })
		assert.Equal(t, 1.0, used.WriteUnits())
		assert.EqualValues(t, 51, s.stored("key", "usd").Consumed/milli)
	})
}

// What policies admit in an outage is charged to the window afterwards, down to nothing, and what
// is more is counted; corrections of it change the counter.
func TestQuotaIsChargedWhatWasAdmittedWithoutIt(t *testing.T) {
	for name, test := range map[string]struct {
		bucket bool          // it exists
		before time.Duration // from the last write of the bucket to the calls
		after  time.Duration // and on to the end of the outage
		take   int64
		level  int64
	}{
		"less than is left": {true, 0, 0, 30, 60}, "more than is left": {true, 0, 0, 130, 0}, "of a new bucket": {false, 0, 0, 30, 70},
		"of the day after": {true, 24 * time.Hour, 0, 30, 70}, "of the day before": {true, 0, 24 * time.Hour, 30, 100},
		"of a new bucket the day before": {false, 0, 24 * time.Hour, 30, 100},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
				s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, pacific))
				before := int64(0)
				if test.bucket {
					before = 10
					s.acquire("key", dynalimit.Amounts{"usd": 10})
				} else {
					s.acquire("other", dynalimit.Amounts{"usd": 1})
					_, err := s.limiter.Check(t.Context(), "key", model, nil)
					require.NoError(t, err)
				}
				s.isCutOff(t)
				s.clock.advance(test.before)
				leases := []*dynalimit.Lease{s.acquire("key", dynalimit.Amounts{"usd": test.take / 2}), s.acquire("key", dynalimit.Amounts{"usd": test.take / 2})}
				s.clock.advance(test.after)
				s.recovers()
				assert.Equal(t, test.level, s.level("key", "usd"))
				assert.Equal(t, before+test.take, s.stored("key", "usd").Consumed/milli)
				for _, lease := range leases {
					require.NoError(t, lease.Rollback(t.Context()))
				}
				s.recovers()
				assert.Equal(t, test.level, s.level("key", "usd"), "what was counted is not given back")
				assert.Equal(t, before, s.stored("key", "usd").Consumed/milli)
			})
		})
	}
}

// A give-back that waits for its bucket in an outage is not given to the next window.
func TestGiveBackThatWaitsOverMidnight(t *testing.T) {
	virtual(t, nil, func(t *testing.T, s *process) {
		s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, pacific))
		s.advanceTo("2099-01-24T07:59:00Z")
		first, second := s.acquire("key", dynalimit.Amounts{"usd": 60}), s.acquire("key", dynalimit.Amounts{"usd": 20})
		s.isCutOff(t)
		require.NoError(t, first.Rollback(t.Context()))
		s.recovers()
		assert.EqualValues(t, 80, s.level("key", "usd"))
		s.isCutOff(t)
		require.NoError(t, second.Rollback(t.Context()))
		s.clock.advance(2 * time.Minute)
		other := s.peer(nil)
		s.db.SetFaults(nil)
		other.acquire("key", dynalimit.Amounts{"usd": 70})
		s.recovers()
		assert.EqualValues(t, 30, s.level("key", "usd"))
		assert.EqualValues(t, 70, s.stored("key", "usd").Consumed/milli)
	})
}

// A configuration with a quota is refused where it says what a quota cannot have.
func TestQuotaThatCannotBe(t *testing.T) {
	s := memProcess(t, nil)
	good := dynalimit.DailyQuota("usd", 100, pacific)
	for field, limit := range map[string]dynalimit.Limit{
		"limits[0].Window":       {Name: "usd", Capacity: 1, Window: "year"},
		"limits[0].Zone":         {Name: "usd", Capacity: 1, RefillPeriod: time.Minute, Zone: "UTC"},
		"limits[0].Burst":        good.WithBurst(200),
		"limits[0].RefillPeriod": {Name: "usd", Capacity: 1, Window: "day", RefillPeriod: time.Minute},
		"limits[0].RefillAmount": {Name: "usd", Capacity: 1, Window: "day", RefillAmount: 2},
	} {
		requireInvalid(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{limit}), field)
	}
	requireInvalid(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.DailyQuota("usd", 1, "Los Angeles")}), "limits[0].Window")
	compatible := s.open(t, s.repo.table, &dynalimit.RepositoryOptions{Compatible: true})
	requireInvalid(t, compatible.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{good}), "limits")
}

// A quota that is full of estimates says so: who asks again soon finds what their calls did not
// use, and who waits is not told to wait for midnight.
func TestQuotaFullOfEstimates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		ctx := t.Context()
		s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 50, "UTC"))
		var open []*dynalimit.Lease
		for range 5 {
			open = append(open, s.acquire("key", dynalimit.Amounts{"usd": 10}))
		}
		for range 2 { // by the bucket, and from memory
			exceeded := s.deny("key", dynalimit.Amounts{"usd": 10})
			assert.True(t, exceeded.Primary().ByEstimates)
			assert.Equal(t, time.Second, exceeded.RetryAfter)
		}
		other := s.peer(nil)
		for _, c := range []struct {
			after time.Duration
			held  bool
		}{{0, true}, {29 * time.Second, true}, {2 * time.Second, false}} {
			elapse(c.after)
			exceeded := other.deny("key", dynalimit.Amounts{"usd": 10})
			assert.Equal(t, c.held, exceeded.Primary().ByEstimates, "another process, after %v", c.after)
			assert.Equal(t, c.held, exceeded.RetryAfter == time.Second, "after %v", c.after)
		}
		go func() {
			elapse(20 * time.Second)
			assert.NoError(t, open[0].Settle(ctx, dynalimit.Amounts{"usd": 1}))
			assert.NoError(t, open[1].Settle(ctx, dynalimit.Amounts{"usd": 1}))
		}()
		waits, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		began := time.Now()
		lease, err := s.limiter.Wait(waits, "key", model, dynalimit.Amounts{"usd": 10})
		require.NoError(t, err)
		assert.Less(t, time.Since(began), 21*time.Second)
		for _, l := range append(open[2:], lease) {
			require.NoError(t, l.Settle(ctx, dynalimit.Amounts{"usd": 10}))
		}
		exceeded := s.deny("key", dynalimit.Amounts{"usd": 10})
		assert.False(t, exceeded.Primary().ByEstimates, "what is used is used")
		assert.Greater(t, exceeded.RetryAfter, time.Hour)
	})
}

// Money fails closed when the store does not answer, whatever the limiter's own policy, unless a
// level or the call says otherwise. Calls that name no money go by the limiter's.
func TestMoneyFailsClosed(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		ctx := t.Context()
		s.ofGroup(model)
		s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.DailyMoneyQuota("usd", 50_000_000, pacific), dynalimit.PerDay("rpm", 100))
		s.acquire("key", dynalimit.Amounts{"usd": 1, "rpm": 1})
		s.isCutOff(t)
		_, err := s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"usd": 1, "rpm": 1})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.acquire("key", dynalimit.Amounts{"usd": 1}, dynalimit.WithOnUnavailable(dynalimit.Allow))
		s.recovers()
		_, err = s.repo.SetConfig(ctx, admin.Scope{Everyone: true}, admin.LimitConfig{OnUnavailable: dynalimit.Allow, Version: admin.AnyVersion})
		require.NoError(t, err)
		s.acquire("key", dynalimit.Amounts{"usd": 1})
		assert.Equal(t, dynalimit.USD, s.deny("key", dynalimit.Amounts{"usd": 50_000_000}).Primary().Limit.Unit)
		s.isCutOff(t)
		s.acquire("key", dynalimit.Amounts{"usd": 1})
		s.recovers()
	})
}

// What is given back of the day before, beside what was admitted without the bucket since midnight,
// takes nothing from the day in force, whoever opens it.
func TestOutageOverMidnight(t *testing.T) {
	for name, test := range map[string]struct {
		opens           int64 // what another process takes of the day first
		level, consumed int64
	}{"opened by this process": {0, 70, 30}, "opened by another": {10, 60, 40}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
				s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, pacific))
				s.advanceTo("2099-01-24T07:50:00Z")
				lease := s.acquire("key", usd(60))
				s.isCutOff(t)
				s.advanceTo("2099-01-24T08:05:00Z")
				require.NoError(t, lease.Rollback(t.Context()))
				s.acquire("key", usd(30))
				other := s.peer(nil)
				if s.db.SetFaults(nil); test.opens > 0 {
					other.acquire("key", usd(test.opens))
				}
				s.recovers()
				assert.Equal(t, test.level, s.level("key", "usd"))
				assert.Equal(t, test.consumed, s.stored("key", "usd").Consumed/milli)
			})
		})
	}
}

// losesFirst loses the answer to the first write of a bucket, after something else was done.
type losesFirst struct {
	*process
	meanwhile func()
	lost      bool
}

func (l *losesFirst) Do(r *http.Request) (*http.Response, error) {
	answer, err := l.db.Do(r)
	if !l.lost && strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
		l.lost = true
		l.meanwhile()
		return nil, syscall.ECONNRESET
	}
	return answer, err
}

// A take whose answer is lost, and that the bucket shows after another process has opened the
// next window, was taken in the window in which it landed: given back, by its caller or for one who
// has left, it fills nothing.
func TestLostAnswerOfAQuotaIsOfItsOwnWindow(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := liveProcess(t, memEngine(t), nil)
			s.limits(admin.Scope{Everyone: true}, dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"})
			s.inSlot(0).acquire("key", dynalimit.Amounts{"usd": 1})
			<-time.After(time.Hour - 50*time.Millisecond)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			taker := s.wired(nil, &losesFirst{process: s, meanwhile: func() {
				if leaves {
					leave()
				}
				<-time.After(100 * time.Millisecond)
				s.acquire("key", dynalimit.Amounts{"usd": 60})
			}}).inSlot(1)
			lease, err := taker.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"usd": 30})
			if leaves && err != nil {
				require.ErrorIs(t, err, context.Canceled)
				elapse(10 * time.Second)
			} else { // the answer of a retry can come before the caller sees that its context has ended
				require.NoError(t, err)
				require.NoError(t, lease.Rollback(t.Context()))
			}
			assert.EqualValues(t, 40, s.level("key", "usd"), "of 100 of this hour 60 are taken")
			assert.EqualValues(t, 61_000, s.stored("key", "usd").Consumed)
		})
	}
}

// Of two leases that are given back at once, one of a window that ended with a change of the
// unit and one of the window in force, the second fills what it took.
func TestGiveBacksOfTwoUnitsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		quota := dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"}
		s.limits(admin.Scope{Everyone: true}, quota)
		before := s.acquire("key", dynalimit.Amounts{"usd": 10})
		quota.Window = "day"
		s.limits(admin.Scope{Everyone: true}, quota)
		<-time.After(2 * time.Minute)
		since := s.acquire("key", dynalimit.Amounts{"usd": 20})
		s.slowly(50*time.Millisecond, 0)
		var group sync.WaitGroup
		group.Go(func() { s.acquire("key", dynalimit.Amounts{"usd": 1}) })
		synctest.Wait()
		for _, lease := range []*dynalimit.Lease{since, before} {
			group.Go(func() { assert.NoError(t, lease.Rollback(t.Context())) })
			synctest.Wait()
		}
		group.Wait()
		assert.EqualValues(t, 89, s.level("key", "usd"), "10 of the hour and 1 are used")
		assert.EqualValues(t, 1000, s.stored("key", "usd").Consumed)
	})
}

// A lease of a process whose clock is behind gives back to the window that it took from: where
// another process has opened the next one, that fills nothing.
func TestGiveBackByAClockThatIsBehind(t *testing.T) {
	s := newProcess(t, memEngine(t), nil)
	s.limits(admin.Scope{Everyone: true}, dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"})
	s.advanceTo("2099-01-23T19:59:59.500Z")
	ahead := newHandClock()
	ahead.ms.Store(s.clock.ms.Load() + 1000)
	other := s.peer(nil, ahead)
	lease := s.acquire("key", dynalimit.Amounts{"usd": 30})
	other.acquire("key", dynalimit.Amounts{"usd": 60})
	require.NoError(t, lease.Rollback(t.Context()))
	assert.EqualValues(t, 40, other.level("key", "usd"), "of 100 of this hour 60 are taken")
	assert.EqualValues(t, 60_000, s.stored("key", "usd").Consumed)
}

// A window that a grant has opened is not opened again by who has not seen it: the grant moves
// no refill instant, and what was taken since would be there again.
func TestWindowThatAGrantOpened(t *testing.T) {
	s := newProcess(t, memEngine(t), nil)
	s.limits(admin.Scope{Everyone: true}, dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"})
	s.advanceTo("2099-01-23T19:50:00Z")
	s.acquire("key", dynalimit.Amounts{"usd": 10})
	s.advanceTo("2099-01-23T20:00:00Z")
	_, err := s.repo.admin().Buckets.GrantWindow(t.Context(), "key", model, "", dynalimit.Amounts{"usd": 50})
	require.NoError(t, err)
	s.peer(nil).acquire("key", dynalimit.Amounts{"usd": 145})
	assert.EqualValues(t, 5, s.deny("key", dynalimit.Amounts{"usd": 50}).Primary().Remaining)
}
