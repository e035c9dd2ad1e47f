package dynalimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// after10ms makes every request take 10 ms before it is executed.
func after10ms(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 10 * time.Millisecond} }

// Memory does not deny what this process is just giving back, whether that is in
// flight or queued behind another write.
func TestMemoryDoesNotDenyBesideAGiveBack(t *testing.T) {
	for _, queued := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, db := waitLimiter(t, PerDay("tpm", 60), PerDay("d", 60))
			lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"tpm": 60})
			require.NoError(t, err)
			db.SetFaults(after10ms)
			if queued {
				go func() { _, _ = l.Acquire(t.Context(), "u", "m", Amounts{"d": 1}) }()
				synctest.Wait()
			}
			go func() { assert.NoError(t, lease.Rollback(t.Context())) }()
			synctest.Wait()
			_, err = l.Acquire(t.Context(), "u", "m", Amounts{"tpm": 60})
			require.NoError(t, err, "queued: %v", queued)
		})
	}
}

// What a transaction must have left is supposed, not seen: it denies nobody.
func TestSupposedImageDeniesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := team(t, []Limit{PerDay("tpm", 60)}, []Limit{PerDay("tpm", 60)})
		other, err := New(l.repo, nil)
		require.NoError(t, err)
		lease, err := other.Acquire(t.Context(), "u", "m", Amounts{"tpm": 30})
		require.NoError(t, err)
		_, err = l.Acquire(t.Context(), "u", "m", Amounts{"tpm": 30}, WithCascade(CascadeTransaction))
		require.NoError(t, err)
		require.NoError(t, lease.Rollback(t.Context()))
		_, err = l.Acquire(t.Context(), "u", "m", Amounts{"tpm": 30})
		require.NoError(t, err, "given back by another since")
	})
}

// After an unanswered write the store may hold more than the last image shows.
func TestImageBeforeAnUnansweredWriteDeniesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, PerDay("tpm", 60))
		lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"tpm": 60})
		require.NoError(t, err)
		l.lanes.Of("u", "m").ForgetOwnWrite() // as in a lane that was forgotten: sent once
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Lose: r.Operation == "UpdateItem"} })
		require.ErrorIs(t, lease.Rollback(t.Context()), ErrUnconfirmed)
		db.SetFaults(nil)
		_, err = l.Acquire(t.Context(), "u", "m", Amounts{"tpm": 60})
		require.NoError(t, err, "the give-back had landed")
	})
}

// A take that does not fit beside those before it is decided from the answer to
// their write, which may show more than the image before.
func TestPostponedTakeIsDecidedFromTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, PerDay("tpm", 100), PerDay("d", 60))
		other, err := New(l.repo, &Options{Limits: l.opts.Limits})
		require.NoError(t, err)
		other.lanes.IDs.Slot = (l.lanes.IDs.Slot + 1) % schema.OpSlots // so that its give-back is not refused first
		lease, err := other.Acquire(t.Context(), "u", "m", Amounts{"tpm": 40})
		require.NoError(t, err)
		drain(t, l, Amounts{"d": 1})
		db.SetFaults(after10ms)
		errs := make(chan error, 3)
		for _, amounts := range []Amounts{{"d": 1}, {"tpm": 40}, {"tpm": 40}} { // the last two ride behind the first
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
