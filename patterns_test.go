package dynalimit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// The patterns that break other limiters over a shared store.

// admitted takes one at a time, without waiting, until it is denied.
func admitted(t *testing.T, l *RateLimiter, name string) int {
	for n := 0; ; n++ {
		_, err := l.Acquire(t.Context(), "key", "gpt-4", Amounts{name: 1})
		if errors.Is(err, ErrLimitExceeded) {
			return n
		}
		require.NoError(t, err)
	}
}

// pattern is two limiters on a bucket with limits, in virtual time.
func pattern(t *testing.T, test func(t *testing.T, db *ddbmem.DB, l [2]*RateLimiter), limits ...Limit) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		repo := e.repository(t, &RepositoryOptions{Now: time.Now})
		require.NoError(t, repo.SetSystemLimits(t.Context(), limits, nil))
		test(t, e.db, [2]*RateLimiter{inSlot(t, e, repo.Table(), 0), inSlot(t, e, repo.Table(), 1)})
	})
}
