package budget

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDuplicateAfterTheModelChanged: a record that would be refused now.
func TestDuplicateAfterTheModelChanged(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		u := call(1)
		u.Model = ""
		w.submit(w.a, u)
		o := fixtureOrg()
		o.Models = map[string]string{"premium": "no.such-model"}
		w.org(o)
		r, err := w.a.Submit(t.Context(), orgO, appA, u)
		require.NoError(t, err)
		assert.True(t, r.Duplicate)
		assert.Equal(t, int64(16_500), r.CostMicros)
	})
}

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
