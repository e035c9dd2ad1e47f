package budget

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestDuplicatesTogether: repetitions of one record share transactions with other records,
// from two processes.
func TestDuplicatesTogether(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		together(20, 40, func(i int) {
			n := 1
			if i%2 == 1 {
				n = i
			}
			_, err := []*Keeper{w.a, w.b}[i/2%2].Submit(t.Context(), orgO, appA, call(n))
			assert.NoError(t, err)
		})
		got := w.total(appA, "premium", "")
		assert.Equal(t, int64(20), got.Requests)
		assert.Equal(t, int64(20*16_500), got.CostMicros)
	})
}
