package dynalimit

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// A SettleSoon that fails in line calls nobody back, though somebody else ends the lease at the
// moment when it gives up: the caller has the error, and may call again.
func TestSettleSoonThatFailsCallsNobodyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memLimiter(t, &Options{Limits: []Limit{PerMinute("rpm", 60)}})
		lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 1})
		require.NoError(t, err)
		s := settling{lease: lease, ctx: t.Context(), settled: func(err error) { t.Error("called back", err) }}
		err = s.inLine(correction{ends: true, target: func([]plan.Signed) []plan.Signed {
			lease.soon = true // by another, before this one looks again
			return []plan.Signed{{Name: "rpm", Amount: -1}}
		}})
		require.ErrorAs(t, err, new(*ValidationError))
	})
}
