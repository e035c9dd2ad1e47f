package tests

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
)

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
		other, err := newLimiter(l.repo, nil)
		require.NoError(t, err)
		lease, err := other.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 30})
		require.NoError(t, err)
		_, err = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 30}, dynalimit.WithCascade(dynalimit.CascadeTransaction))
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
		l.lanes.Of("u", "m").ForgetOwnWrite() // as in a lane that was forgotten: sent once
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
		other, err := newLimiter(l.repo, &dynalimit.Options{Limits: l.own})
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
