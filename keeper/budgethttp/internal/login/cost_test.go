package login

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a login costs, in requests and capacity units, as docs/cost.md has it.
func TestCostOfLogins(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	for range 2 { // until what is known of the buckets is known
		w.token(w.a, c)
		require.ErrorIs(t, w.try(w.a, home, c.ClientID, wrong), ErrUnauthorized)
	}
	for name, tc := range map[string]struct {
		login         func()
		requests      int64
		writes, reads float64
	}{
		"good":    {func() { w.token(w.a, c) }, 5, 4, 1},
		"refused": {func() { require.ErrorIs(t, w.try(w.a, home, c.ClientID, wrong), ErrUnauthorized) }, 5, 4, 1},
	} {
		before := w.db.Meter()
		tc.login()
		spent := w.db.Meter().Sub(before)
		assert.Equal(t, tc.requests, spent.Requests(), name)
		assert.InDelta(t, tc.writes, spent.WriteUnits(), 0, name)
		assert.InDelta(t, tc.reads, spent.ReadUnits(), 0, name)
	}
	for range 10 {
		_ = w.try(w.a, home, c.ClientID, wrong)
	}
	before := w.db.Meter()
	assertThrottled(t, w.try(w.a, home, c.ClientID, wrong), "ten failed there")
	assert.Zero(t, w.db.Meter().Sub(before).Requests(), "the denial is remembered")
}
