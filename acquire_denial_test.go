package dynalimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/observe"
)

// A take that does not fit is denied although smaller ones, which do, keep coming:
// nobody who asks not to wait waits in line.
func TestTakeThatDoesNotFitIsDeniedBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerDay("tpm", 1000))
		_, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 200})
		require.NoError(t, err)
		db.SetFaults(after10ms)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 100 { // one queues while the last is in flight, always
				go func() { _, _ = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 1}) }()
				<-time.After(5 * time.Millisecond)
			}
		}()
		<-time.After(12 * time.Millisecond)
		left, err := availableOf(l.Check(t.Context(), "u", "m", nil))
		require.NoError(t, err)
		began := time.Now()
		_, err = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": left["tpm"]}) // what is in flight is not known yet
		assert.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		assert.Less(t, time.Since(began), 50*time.Millisecond)
		<-done
		synctest.Wait()
	})
}

// What a batch gives back comes before what it takes, and a full bucket holds no
// more: a take denied beside both must say how long, not that it would fit.
func TestDenialBesideGiveBackAndTake(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}))
		old := s.acquire("org", dynalimit.Amounts{"rpm": 90})
		elapse(25 * time.Hour) // full again
		s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 10 * time.Millisecond} })
		errs := make(map[int64]chan error)
		take := func(n int64) {
			done := make(chan error, 1)
			errs[n] = done
			go func() {
				_, err := s.limiter.Acquire(t.Context(), "org", "gpt-4", dynalimit.Amounts{"rpm": n})
				done <- err
			}()
			synctest.Wait()
		}
		take(40)
		elapse(15 * time.Millisecond) // reads the configuration
		for _, n := range []int64{1, 80, 65} {
			take(n) // while the 40 are written
		}
		elapse(10 * time.Millisecond) // the 1 is written, and 80 and 65 do not fit beside
		require.NoError(t, old.Rollback(t.Context()))
		for _, n := range []int64{40, 1, 80} {
			require.NoError(t, <-errs[n])
		}
		var denied *dynalimit.LimitExceededError
		require.ErrorAs(t, <-errs[65], &denied)
		require.Equal(t, int64(20), denied.Primary().Remaining)
		require.Equal(t, 45*24*time.Hour/100, denied.RetryAfter.Round(time.Minute))
	})
}

// A denial by one level's memory must not hide that another level denies for
// longer.
func TestDenialFromMemoryKnowsEveryLevel(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		ctx := t.Context()
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "key"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "org"}, []dynalimit.Limit{dynalimit.PerHour("rpm", 10)}))
		s.acquire("key", dynalimit.Amounts{"rpm": 10})

		other := s.peer(nil)
		other.deny("org", dynalimit.Amounts{"rpm": 10}) // reads the parent's configuration
		elapse(2 * time.Second)
		wait, ok := dynalimit.RetryAfter(other.deny("key", dynalimit.Amounts{"rpm": 10})) // and now the child's, with its bucket
		require.True(t, ok)
		require.Equal(t, time.Hour-2*time.Second, wait)
		elapse(wait - time.Millisecond)
		other.deny("key", dynalimit.Amounts{"rpm": 10})
		elapse(time.Millisecond)
		other.acquire("key", dynalimit.Amounts{"rpm": 10})
	})
}

// A denial by one level's memory must still bring another level its newer
// configuration, for what it says of the wait holds only from then on.
func TestDenialFromMemoryBringsNewerConfiguration(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		ctx := t.Context()
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "key"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "org"}, []dynalimit.Limit{dynalimit.PerHour("rpm", 10)}))
		s.acquire("key", dynalimit.Amounts{"rpm": 10})
		elapse(3 * time.Second)
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "org"}, []dynalimit.Limit{dynalimit.PerHour("rpm", 100)}))
		other := s.peer(nil)
		wait, ok := dynalimit.RetryAfter(other.deny("key", dynalimit.Amounts{"rpm": 10}))
		require.True(t, ok)
		elapse(wait)
		other.acquire("key", dynalimit.Amounts{"rpm": 10})
	})
}

// A client that stalled decides by what has accrued since, not by old numbers.
func TestStalledClientSeesWhatAccrued(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		s.acquire("user-1", dynalimit.Amounts{"rpm": 5, "tpm": 1})
		p.acquire("user-1", dynalimit.Amounts{"rpm": 95})
		s.clock.advance(12 * time.Second)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 20})
		p.deny("user-1", dynalimit.Amounts{"rpm": 1})
		s.clock.advance(3 * time.Second)
		exceeded := p.deny("user-1", dynalimit.Amounts{"rpm": 10, "tpm": 10})
		assert.Equal(t, 3*time.Second, exceeded.RetryAfter)
		assert.Equal(t, []bool{true, false}, []bool{exceeded.Statuses[0].Exceeded, exceeded.Statuses[1].Exceeded}, "only what does not fit")
	})
}

// Memory does not deny what this process is just giving back, whether that is in
// flight or queued behind another write.
func TestMemoryDoesNotDenyBesideAGiveBack(t *testing.T) {
	for _, queued := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, db := waitLimiter(t, dynalimit.PerDay("tpm", 60), dynalimit.PerDay("d", 60))
			lease, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 60})
			require.NoError(t, err)
			db.SetFaults(after10ms)
			if queued {
				go func() { _, _ = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"d": 1}) }()
				synctest.Wait()
			}
			go func() { assert.NoError(t, lease.Rollback(t.Context())) }()
			synctest.Wait()
			_, err = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 60})
			require.NoError(t, err, "queued: %v", queued)
		})
	}
}

// What a transaction must have left is supposed, not seen: it denies nobody.
func TestSupposedImageDeniesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := team(t, []dynalimit.Limit{dynalimit.PerDay("tpm", 60)}, []dynalimit.Limit{dynalimit.PerDay("tpm", 60)})
		other, err := openLimiter(l.repo, nil)
		require.NoError(t, err)
		lease, err := other.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 30})
		require.NoError(t, err)
		_, err = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 30}, dynalimit.WithChargeMode(dynalimit.ChargeTransaction))
		require.NoError(t, err)
		require.NoError(t, lease.Rollback(t.Context()))
		_, err = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 30})
		require.NoError(t, err, "given back by another since")
	})
}

// After an unanswered write the store may hold more than the last image shows.
func TestImageBeforeAnUnansweredWriteDeniesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerDay("tpm", 60))
		lease, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 60})
		require.NoError(t, err)
		l.lanes.Of("u", "m").Memory.ForgetOwnWrite() // as in a lane that was forgotten: sent once
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Lose: r.Operation == "UpdateItem"} })
		require.ErrorIs(t, lease.Rollback(t.Context()), dynalimit.ErrUnconfirmed)
		db.SetFaults(nil)
		_, err = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 60})
		require.NoError(t, err, "the give-back had landed")
	})
}

// A take that does not fit beside those before it is decided from the answer to
// their write, which may show more than the image before.
func TestPostponedTakeIsDecidedFromTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerDay("tpm", 100), dynalimit.PerDay("d", 60))
		other, err := openLimiter(l.repo, &dynalimit.Options{Limits: l.own})
		require.NoError(t, err)
		other.lanes.IDs.Slot = (l.lanes.IDs.Slot + 1) % schema.OpSlots // so that its give-back is not refused first
		lease, err := other.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 40})
		require.NoError(t, err)
		drain(t, l, dynalimit.Amounts{"d": 1})
		db.SetFaults(after10ms)
		errs := make(chan error, 3)
		for _, amounts := range []dynalimit.Amounts{{"d": 1}, {"tpm": 40}, {"tpm": 40}} { // the last two ride behind the first
			go func() {
				_, err := l.Acquire(t.Context(), "u", "m", amounts)
				errs <- err
			}()
			synctest.Wait()
		}
		<-time.After(5 * time.Millisecond)
		require.NoError(t, lease.Rollback(t.Context())) // lands while the second is in flight
		for range 3 {
			require.NoError(t, <-errs)
		}
	})
}

// Memory of a bucket under other limits than those in force says nothing: the
// wait is another.
func TestMemoryUnderOtherLimitsDeniesNobody(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		ctx := t.Context()
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}))
		s.acquire("org", dynalimit.Amounts{"rpm": 100})
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerHour("rpm", 100)}))
		wait, ok := dynalimit.RetryAfter(s.deny("org", dynalimit.Amounts{"rpm": 100}))
		require.True(t, ok)
		require.LessOrEqual(t, wait, time.Hour)
	})
}

// reads are the consistent reads of a bucket among a meter's.
func reads(m ddbmem.Meter) int64 { return m.Operations["GetItem"].Requests }

// A bucket that is scarce, and that others take from, is looked at before it is
// written when what is known of it is old: a denial costs a read, no write.
func TestScarceBucketIsLookedAtBeforeItIsWritten(t *testing.T) {
	s := memProcess(t, perDay(86_400)) // a token a second
	other := s.peer(perDay(86_400))
	s.acquire("user-1", dynalimit.Amounts{"tpm": 1})
	other.acquire("user-1", dynalimit.Amounts{"tpm": 86_399})
	s.deny("user-1", dynalimit.Amounts{"tpm": 1}) // met what the other took
	for range 3 {
		s.clock.advance(5 * time.Second)
		other.acquire("user-1", dynalimit.Amounts{"tpm": 5})
		used := s.used(func() {
			denial := s.deny("user-1", dynalimit.Amounts{"tpm": 2})
			assert.Equal(t, 2*time.Second, denial.RetryAfter)
		})
		assert.Equal(t, int64(1), reads(used))
		assert.Zero(t, writes(used))
	}
	s.clock.advance(5 * time.Second)
	used := s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 5}) })
	assert.Equal(t, int64(1), reads(used))
	assert.Equal(t, int64(1), writes(used), "what fits is written")

	s.clock.advance(2 * time.Second)
	used = s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 1}) })
	assert.Equal(t, int64(1), writes(used))
	assert.Equal(t, int64(1), reads(used), "nearly empty is scarce too")
	s.clock.advance(time.Second)
	used = s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 1}) })
	assert.Zero(t, reads(used), "what is known is a second old at most")
	s.clock.advance(time.Minute)
	used = s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 1}) })
	assert.Zero(t, reads(used), "nobody else was seen for a minute")
}

// A transaction, which costs twice the units, looks too.
func TestTransactionLooksAtAScarceBucket(t *testing.T) {
	opts := perDay(86_400)
	opts.ChargeMode = dynalimit.ChargeTransaction
	s := memProcess(t, opts)
	s.family("key", "project")
	other := s.peer(perDay(86_400))
	s.acquire("project", dynalimit.Amounts{"tpm": 1})
	other.acquire("project", dynalimit.Amounts{"tpm": 86_399})
	s.deny("project", dynalimit.Amounts{"tpm": 1})
	s.acquire("key", dynalimit.Amounts{"tpm": 0})
	s.clock.advance(5 * time.Second)
	other.acquire("project", dynalimit.Amounts{"tpm": 5})
	used := s.used(func() { s.deny("key", dynalimit.Amounts{"tpm": 2}) })
	assert.Zero(t, writes(used))
}

// What did not fit when the bucket was asked is denied: with what is refilled while a
// read is under way, half of the looks would fit, and be written in vain.
func TestLookDeniesWhatDidNotFitWhenItWasSent(t *testing.T) {
	s := memProcess(t, perDay(86_400))
	other := s.peer(perDay(86_400))
	s.acquire("user-1", dynalimit.Amounts{"tpm": 1})
	other.acquire("user-1", dynalimit.Amounts{"tpm": 86_399})
	s.deny("user-1", dynalimit.Amounts{"tpm": 1})
	s.clock.advance(5 * time.Second)
	other.acquire("user-1", dynalimit.Amounts{"tpm": 5})
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "GetItem" {
			s.clock.advance(time.Second)
		}
		return ddbmem.Fault{}
	})
	used := s.used(func() { s.deny("user-1", dynalimit.Amounts{"tpm": 1}) })
	assert.Zero(t, writes(used))
	assert.Equal(t, int64(1), reads(used))
}

// After throttling a scarce bucket is looked at, however young what is known of it is.
func TestThrottledLaneLooksAtAScarceBucket(t *testing.T) {
	virtual(t, perDay(86_400), func(t *testing.T, s *process) {
		other := s.peer(perDay(86_400))
		s.acquire("user-1", dynalimit.Amounts{"tpm": 1})
		other.acquire("user-1", dynalimit.Amounts{"tpm": 86_300})
		s.acquire("user-1", dynalimit.Amounts{"tpm": 90}) // 9 are left
		s.db.SetFaults(firstOf("UpdateItem", 1, throttled1))
		used := s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 1}) })
		assert.Equal(t, int64(1), reads(used))
		assert.Equal(t, int64(2), writes(used))

		s.recovers()
		plenty := s.peer(perDay(86_400))
		plenty.acquire("user-2", dynalimit.Amounts{"tpm": 1})
		s.acquire("user-2", dynalimit.Amounts{"tpm": 1})
		s.db.SetFaults(firstOf("UpdateItem", 1, throttled1))
		used = s.used(func() { s.acquire("user-2", dynalimit.Amounts{"tpm": 1}) })
		assert.Zero(t, reads(used), "not at one that is full")
	})
}

// Reads that are throttled back off as writes do, and fail nobody before the time is
// over.
func TestThrottledReadsBackOff(t *testing.T) {
	virtual(t, perDay(86_400), func(t *testing.T, s *process) {
		other := s.peer(perDay(86_400))
		s.acquire("user-1", dynalimit.Amounts{"tpm": 1})
		other.acquire("user-1", dynalimit.Amounts{"tpm": 86_399})
		s.deny("user-1", dynalimit.Amounts{"tpm": 1})
		s.clock.advance(5 * time.Second)
		until := time.Now().Add(900 * time.Millisecond)
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "GetItem" && time.Now().Before(until) {
				return throttled1
			}
			return ddbmem.Fault{}
		})
		used := s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 1}) })
		assert.LessOrEqual(t, reads(used), int64(10), "the SDK sends none again of its own")
		assert.GreaterOrEqual(t, reads(used), int64(6))
		hot := s.limiter.Health().Hottest
		require.Len(t, hot, 1)
		assert.Equal(t, observe.ReadsThrottled, hot[0].Why)
		assert.Zero(t, hot[0].Interval)
		assert.False(t, s.limiter.Health().Open)

		s.clock.advance(5 * time.Second)
		s.db.SetFaults(firstOf("GetItem", -1, throttled1))
		began := time.Now()
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"tpm": 1})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		assert.Equal(t, 2*time.Second, time.Since(began))
	})
}
