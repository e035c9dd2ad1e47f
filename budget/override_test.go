package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStickySaysOverride: while it is followed; then what spend led to.
func TestStickySaysOverride(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.spend(appA, "premium", 10_000_000)
		w.recommend(w.a, appA)
		until := w.clock.Now().Add(time.Hour)
		require.NoError(t, w.a.Override(t.Context(), orgO, appA, "economy", until))
		got, err := w.a.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, []any{"economy", 2, "standard", ReasonManualOverride}, []any{got.Label, got.Index, got.Previous, got.Reason})
		assert.True(t, until.Add(-time.Hour).Equal(got.At), "when it was set")
		assert.Equal(t, ReasonManualOverride, w.recommend(w.a, appA).Reason)
		w.clock.Set(until)
		got, err = w.a.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, []any{"standard", 1, "premium", ReasonQuotaExceeded}, []any{got.Label, got.Index, got.Previous, got.Reason})
	})
}

// TestTheStickyRecordIsKept unless an organisation has it off.
func TestTheStickyRecordIsKept(t *testing.T) {
	for _, off := range []bool{false, true} {
		w := newWorld(t)
		o := fixtureOrg()
		o.Sticky, o.NoSticky = false, off
		w.org(o)
		for range 2 { // as it was read, it is put again
			got, err := w.b.GetOrg(t.Context(), orgO)
			require.NoError(t, err)
			assert.Equal(t, []bool{!off, off}, []bool{got.Sticky, got.NoSticky})
			w.org(got)
		}
		w.spend(appA, "premium", 10_000_000)
		assert.Equal(t, "standard", w.recommend(w.a, appA).Label)
		got, err := w.b.Sticky(t.Context(), orgO, appA)
		if off {
			require.ErrorIs(t, err, ErrNotFound)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "standard", got.Label)
	}
}

// TestOverrideNeedsAPrice: a label that could not be chosen cannot be forced.
func TestOverrideNeedsAPrice(t *testing.T) {
	w := newWorld(t)
	o := fixtureOrg()
	o.Models = map[string]string{"standard": "no.such-model"}
	w.org(o)
	err := w.a.Override(t.Context(), orgO, appA, "standard", w.clock.Now().Add(time.Hour))
	assert.Contains(t, requireCode(t, err, CodeInvalidConfig).Error(), "no.such-model")
	assert.Equal(t, ReasonWithinQuota, w.recommend(w.a, appA).Reason)
}

// TestCacheForEndsWithTheDay: a client does not keep a recommendation beyond
// the day it is for, nor beyond an override.
func TestCacheForEndsWithTheDay(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	require.NoError(t, w.a.Override(t.Context(), orgO, appA, "economy", w.clock.Now().Add(20*time.Second)))
	assert.Equal(t, 20*time.Second, w.recommend(w.a, appA).CacheFor)
	w.clock.Set(at(t, "2026-01-24T04:59:50Z"))
	assert.Equal(t, 10*time.Second, w.recommend(w.a, appA).CacheFor)
	w.clock.Advance(10 * time.Second)
	assert.Equal(t, 300*time.Second, w.recommend(w.a, appA).CacheFor)
}
