package dynalimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

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
			l, err := openLimiter(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)}})
			require.NoError(t, err)
			_, err = availableOf(l.Check(t.Context(), "u", "m", nil)) // learns the time
			require.NoError(t, err)
			drain(t, l, dynalimit.Amounts{"rpm": 60})
			known := lane.BesideOf(l.lanes.Of("u", "m"))
			image := known.LastResult(nil).Image
			require.InDelta(t, theirs().UnixMilli(), image.Refilled, 1000, "skew %v", skew)
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
		l, err := openLimiter(repo, nil)
		require.NoError(t, err)
		other, err := openLimiter(e.open(t, repo.Table(), &dynalimit.RepositoryOptions{Now: time.Now}), nil)
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
		s := other.on(e.open(t, other.repo.table, nil), &dynalimit.Options{ChargeMode: dynalimit.ChargeTransaction})
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

// The expiry covers at least an hour, the refill of the slowest limit, and the
// deepest debt.
func TestExpiryCoversRefillAndDebt(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		for _, test := range []struct {
			name  string
			limit dynalimit.Limit
			debt  int64
			least time.Duration
		}{
			{"fast", dynalimit.PerSecond("x", 10), 0, time.Hour},
			{"slow", dynalimit.PerDay("x", 10), 0, 7 * 24 * time.Hour},
			{"small refill", dynalimit.Limit{Name: "x", Capacity: 1000, RefillAmount: 1, RefillPeriod: time.Minute}, 0, 7 * 1000 * time.Minute},
			{"debt", dynalimit.PerMinute("x", 10), 1_000_000, 100_000 * time.Minute},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := newProcess(t, e, nil)
				require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{test.limit}))
				lease := s.acquire("user-1", dynalimit.Amounts{"x": 1})
				if test.debt > 0 {
					require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"x": test.debt}))
				}
				ahead := time.Duration(s.image("user-1").TTL-s.clock.now().Unix()) * time.Second
				assert.GreaterOrEqual(t, ahead, test.least)
			})
		}
	})
}

// A bucket whose limits are the entity's own is never deleted.
func TestOwnLimitsHaveNoExpiry(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.NotZero(t, s.image("user-1").TTL)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "user-1"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
		s.clock.advance(2 * time.Second)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Zero(t, s.image("user-1").TTL)
		require.NoError(t, s.repo.DeleteLimits(t.Context(), admin.Scope{Entity: "user-1"}))
		s.clock.advance(2 * time.Second)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.NotZero(t, s.image("user-1").TTL)
	})
}

// With expired items deleted at once, a busy or indebted bucket is never
// forgiven: its expiry moves before it comes.
func TestExpiryNeverForgives(t *testing.T) {
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now), ddbmem.WithExpiry())
	repo := e.repository(t, &dynalimit.RepositoryOptions{Now: clock.now})
	s := (&process{engine: e, t: t, clock: clock}).on(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerHour("x", 60)}})
	lease := s.acquire("user-1", dynalimit.Amounts{"x": 60})
	require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"x": 60 * 24 * 2})) // two days' worth
	admitted := 0
	for range 24 * 4 { // four days, an attempt every hour
		s.clock.advance(time.Hour)
		admitted += s.allowed(60, "user-1", "x")
	}
	assert.Equal(t, 60*24*2, admitted, "nothing for two days, then what is refilled")
}

// An item past its expiry that DynamoDB has not deleted yet is not spent as it
// is: the take moves the expiry, or the debt would vanish with the deletion.
func TestExpiredItemThatIsStillThere(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 100})
		item := s.item("user-1")
		item[schema.TTL] = schema.Number(s.clock.now().Unix() - 10)
		put(t, s.repo, item)
		s.clock.advance(600 * time.Millisecond)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Greater(t, s.image("user-1").TTL, s.clock.now().Unix()+3000)
		item = s.item("user-1")
		item[schema.TTL] = schema.Number(s.clock.now().Unix() - 10)
		put(t, s.repo, item)
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 500}))
		image := s.image("user-1")
		assert.GreaterOrEqual(t, image.TTL, s.clock.now().Unix()+6*60, "an adjust, too")
		assert.Equal(t, int64(-500_000), s.level("user-1", "rpm")*milli, "no more, no less")
	})
}

// huge is the largest limit there is.
func huge() *dynalimit.Options {
	return &dynalimit.Options{Limits: []dynalimit.Limit{{Name: "x", Capacity: maxTokens, RefillPeriod: 24 * time.Hour}}}
}

// notWritten asserts that an adjust was refused for the debt it would make.
func notWritten(t *testing.T, err error) {
	t.Helper()
	var unconfirmed *dynalimit.UnconfirmedError
	require.ErrorAs(t, err, &unconfirmed)
	assert.True(t, unconfirmed.NotWritten)
	var refused *dynalimit.ValidationError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "amounts[x]", refused.Field)
	assert.ErrorContains(t, err, "into debt")
}

// The sums of many callers ride in as many writes as they need: what is
// debited is what was not refused, to the token.
func TestSumsOfManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		repo := e.repository(t, &dynalimit.RepositoryOptions{Now: time.Now})
		l, err := openLimiter(repo, huge())
		require.NoError(t, err)
		const callers = 10_000 // 10^19 millitokens together
		leases := make([]*dynalimit.Lease, callers)
		for i := range leases {
			leases[i], err = l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"x": 0})
			require.NoError(t, err)
		}
		_, err = l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"x": 1})
		require.NoError(t, err)
		e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 50 * time.Millisecond} })
		var wg sync.WaitGroup
		var charged atomic.Int64
		for _, lease := range leases {
			wg.Go(func() {
				if err := lease.Adjust(t.Context(), dynalimit.Amounts{"x": maxTokens}); err == nil {
					charged.Add(1)
				} else {
					notWritten(t, err)
				}
			})
		}
		wg.Wait()
		e.db.SetFaults(nil)
		assert.Greater(t, charged.Load(), int64(2000))
		report, err := l.Check(t.Context(), "u", model, nil)
		require.NoError(t, err)
		assert.InDelta(t, maxTokens-1-charged.Load()*maxTokens, report.Statuses[0].Remaining, 60*maxTokens/86_400, "but for the refill")
		require.NoError(t, l.Close(t.Context()))
	})
}

// A debt that a bucket cannot store is refused before it is written; the others
// of the batch go on, and the bucket can be read for ever.
func TestDebtThatCannotBeStored(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, huge())
		s.acquire("u", dynalimit.Amounts{"x": 1})
		deep := s.item("u")
		deep["b_x_tk"] = schema.Number(-plan.MaxDebt + 10*milli)
		put(t, s.repo, deep)
		s.limiter.lanes.Of("u", model).Memory.Drop()

		require.NoError(t, s.acquire("u", dynalimit.Amounts{"x": 0}).Adjust(t.Context(), dynalimit.Amounts{"x": 4}))
		notWritten(t, s.acquire("u", dynalimit.Amounts{"x": 0}).Adjust(t.Context(), dynalimit.Amounts{"x": maxTokens}))
		assert.Equal(t, int64(-plan.MaxDebt+6*milli), s.stored("u", "x").Tokens)

		l := s.limiter.lanes.Of("u", model)
		cfg := configOf(s.limiter.own)
		ops := make([]*lane.Op, 0, 3)
		for _, tokens := range []int64{3, 5, 2} {
			ops = append(ops, lane.NewAdjust(t.Context(), []plan.Signed{{Name: "x", Amount: tokens * milli}}, nil, cfg))
		}
		l.Submit(ops...)
		for i, refused := range []bool{false, true, false} {
			<-ops[i].Done
			if refused {
				requireRefused(t, ops[i].Result.Err)
			} else {
				require.NoError(t, ops[i].Result.Err)
			}
		}
		assert.Equal(t, int64(-plan.MaxDebt+milli), s.stored("u", "x").Tokens)
		_, err := s.limiter.Acquire(t.Context(), "u", model, dynalimit.Amounts{"x": 1}, dynalimit.WithOnUnavailable(dynalimit.Allow))
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
	})
}

// The counter of a bucket goes beyond 64 bits, exactly, and blocks nobody.
func TestCounterBeyond64Bits(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.acquire("u", dynalimit.Amounts{"tpm": 1})
		item := s.item("u")
		item["b_tpm_tc"] = &types.AttributeValueMemberN{Value: "9223372036854775807"}
		put(t, s.repo, item)
		p := s.peer(perMinute())
		lease := p.acquire("u", dynalimit.Amounts{"tpm": 9})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -2}))
		assert.Equal(t, &types.AttributeValueMemberN{Value: "9223372036854782807"}, s.item("u")["b_tpm_tc"])
		assert.Equal(t, int64(9992), s.level("u", "tpm"))
	})
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
			l, err := openLimiter(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)}})
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
