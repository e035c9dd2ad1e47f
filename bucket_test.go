package dynalimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// What is left is rounded down, in debt too: half a token of debt is shown as one.
func TestRemainingIsRoundedDown(t *testing.T) {
	for millitokens, tokens := range map[int64]int64{-1001: -2, -1000: -1, -500: -1, -1: -1, 0: 0, 999: 0, 1000: 1} {
		assert.Equal(t, tokens, floorDiv(millitokens, milli), "%d", millitokens)
	}
}

// memLimiter is a limiter on a new table.
func memLimiter(t *testing.T, opts *Options) *RateLimiter {
	t.Helper()
	l, err := New(memRepository(t, testworld.NewMem(t)), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close(context.WithoutCancel(t.Context()))) })
	return l
}

// memRepository is a repository on a new table of db.
func memRepository(t *testing.T, db *ddbmem.DB) *Repository {
	t.Helper()
	r, err := NewRepository(db.Client(), "limits", &RepositoryOptions{Now: time.Now})
	require.NoError(t, err)
	require.NoError(t, r.CreateTable(t.Context()))
	return r
}

// A SettleSoon that fails in line calls nobody back, though somebody else ends the lease at the
// moment when it gives up: the caller has the error, and may call again.
func TestSettleSoonThatFailsCallsNobodyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memLimiter(t, &Options{Limits: []Limit{PerMinute("rpm", 60)}})
		lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 1})
		require.NoError(t, err)
		s := settling{lease: lease, ctx: t.Context(), settled: func(err error) { t.Error("called back", err) }}
		err = s.settleNow(correction{ends: true, target: func([]plan.Signed) []plan.Signed {
			lease.soon = true // by another, before this one looks again
			return []plan.Signed{{Name: "rpm", Amount: -1}}
		}})
		require.ErrorAs(t, err, new(*ValidationError))
	})
}
