package dynalimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A charge of a limit that is gone from bucket and configuration is dropped, so
// that the lease does not hold it: given back once the limit is there again, it
// would be tokens that nobody paid.
func TestDroppedChargeIsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		l, repo := family(t, e, nil)
		ctx := t.Context()
		both, one := []Limit{PerHour("rpm", 100), PerHour("tpm", 100)}, []Limit{PerHour("rpm", 100)}
		require.NoError(t, repo.SetSystemLimits(ctx, both, nil))
		lease, err := l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 1})
		require.NoError(t, err)
		elapse(2 * time.Second)
		require.NoError(t, repo.SetSystemLimits(ctx, one, nil))
		elapse(2 * time.Second)
		_, err = l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 1}) // removes tpm, which is full
		require.NoError(t, err)
		require.NoError(t, lease.Adjust(ctx, Amounts{"tpm": 50})) // charges nothing
		require.NoError(t, repo.SetSystemLimits(ctx, both, nil))
		elapse(2 * time.Second)
		_, err = l.Acquire(ctx, "org", "gpt-4", Amounts{"tpm": 80})
		require.NoError(t, err)
		require.NoError(t, lease.Rollback(ctx))
		image, err := repo.readBucket(ctx, l.lanes.Of("org", "gpt-4").Key, nil, 0)
		require.NoError(t, err)
		require.Equal(t, int64(80_000), image.Limits[image.Set.Index("tpm")].Consumed)
	})
}
