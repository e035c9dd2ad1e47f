package budget

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func microOrg() Org {
	o := fixtureOrg()
	o.Ordering, o.Quotas = []string{"micro"}, map[string]int64{"micro": 100}
	return o
}

// TestEstimateRoundsUp: it is never less than the call costs.
func TestEstimateRoundsUp(t *testing.T) {
	w := newWorld(t)
	w.org(microOrg())
	ctx := t.Context()
	for tokens, want := range map[int64]int64{0: 0, 1: 1, 42: 2, 1000: 35, 1001: 36} { // at 0.035 µ$
		got, err := w.a.Estimate(ctx, orgO, appA, "micro", tokens, 0)
		require.NoError(t, err)
		assert.Equal(t, want, got, "%d tokens", tokens)
	}
}
