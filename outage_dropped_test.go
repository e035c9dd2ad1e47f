package dynalimit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// What a bucket is owed of a limit that is gone when it answers again is dropped:
// the lease does not hold it, and gives nothing back once the limit is there again.
func TestOwedOfALimitThatIsGoneIsNotGivenBack(t *testing.T) {
	both, one := []Limit{PerMinute("rpm", 100), PerMinute("tpm", 100)}, []Limit{PerMinute("rpm", 100)}
	virtual(t, &Options{OnUnavailable: Allow}, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetSystemLimits(t.Context(), both, nil))
		s.acquire(userOf(0), Amounts{"rpm": 1, "tpm": 1})
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { // this process alone is cut off
			return ddbmem.Fault{Drop: r.Context.Value(otherProcess{}) == nil}
		})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable) // and now it is known to be silent
		lease, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 5, "tpm": 50})
		require.NoError(t, err)
		require.True(t, lease.Degraded())
		s.clock.advance(3 * time.Second)
		<-time.After(3 * time.Second)
		other, ctx := s.peer(perMinute()), context.WithValue(t.Context(), otherProcess{}, true)
		require.NoError(t, other.repo.SetSystemLimits(ctx, one, nil))
		_, err = other.limiter.Acquire(ctx, userOf(0), model, Amounts{"rpm": 1}) // removes tpm, which is full
		require.NoError(t, err)
		s.recovers()
		require.NoError(t, other.repo.SetSystemLimits(ctx, both, nil))
		s.clock.advance(3 * time.Second)
		<-time.After(3 * time.Second)
		_, err = other.limiter.Acquire(ctx, userOf(0), model, Amounts{"tpm": 80})
		require.NoError(t, err)
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(80), s.stored(userOf(0), "tpm").Consumed/milli, "tpm was never charged")
		assert.Equal(t, int64(2), s.stored(userOf(0), "rpm").Consumed/milli, "rpm was, and is given back")
	})
}
