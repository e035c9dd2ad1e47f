package dynalimit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A caller who is denied comes again and again: what memory denies makes the error,
// its statuses inside, and nothing else.
func TestDenialFromMemoryMakesOnlyItsError(t *testing.T) {
	for _, tc := range []struct {
		name    string
		amounts Amounts
		most    float64
	}{
		{"one limit", Amounts{"rpm": 10}, 1},
		{"two limits", Amounts{"rpm": 1, "tpm": 500}, 1},
		{"more limits than the error has room for", Amounts{"rpm": 1, "tpm": 500, "images": 1}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := memProcess(t, &Options{Limits: []Limit{PerMinute("images", 5), PerMinute("rpm", 10), PerMinute("tpm", 500)}})
			s.acquire("user", Amounts{"rpm": 1, "tpm": 1, "images": 1})
			before := s.db.Meter()
			made := testing.AllocsPerRun(100, func() {
				_, err := s.limiter.Acquire(t.Context(), "user", model, tc.amounts)
				require.ErrorIs(t, err, ErrLimitExceeded)
			})
			require.LessOrEqual(t, made, tc.most)
			require.Zero(t, s.db.Meter().Sub(before).Requests(), "nobody is asked")
		})
	}
}
