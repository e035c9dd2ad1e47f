package cache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Who holds a value sees what Fresh would return, and is counted as it would be.
func TestHeldValueIsStillFresh(t *testing.T) {
	for what, leaves := range map[string]func(t *testing.T, c *Loading[name, *version], s *store){
		"its time is over": func(*testing.T, *Loading[name, *version], *store) { elapse(ttl - loadTakes) },
		"it is evicted":    func(_ *testing.T, c *Loading[name, *version], _ *store) { c.Evict(func(name) bool { return true }) },
		"it is dropped":    func(_ *testing.T, c *Loading[name, *version], _ *store) { c.Drop("a") },
		"it is replaced":   func(_ *testing.T, c *Loading[name, *version], _ *store) { c.Replace("a", c.Last("a"), &version{7}) },
		"it is read again": func(t *testing.T, c *Loading[name, *version], s *store) { _, _ = c.Reload(t.Context(), "a", s.load) },
		"there is no room": fill10,
		"the clock goes back": func(_ *testing.T, c *Loading[name, *version], _ *store) {
			c.Now = func() time.Time { return time.Now().Add(-time.Hour) }
		},
	} {
		for _, maxStale := range []time.Duration{0, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				s, c := &store{}, loading(t, Options[*version]{MaxStale: maxStale})
				_, ok := c.Hold("a")
				require.False(t, ok, "nothing was read")
				gets(t, c, s, 1, loadTakes)
				held, ok := c.Hold("a")
				require.True(t, ok)
				require.Equal(t, 1, held.Value.n)
				before := c.Stats()
				require.True(t, c.Still(&held, c.Now()))
				assert.Equal(t, before.Hits+1, c.Stats().Hits)
				leaves(t, c, s)
				before = c.Stats()
				assert.False(t, c.Still(&held, c.Now()), what)
				assert.Equal(t, before, c.Stats(), "nothing is counted")
			})
		}
	}
}

// fill10 asks for ten other values.
func fill10(t *testing.T, c *Loading[name, *version], s *store) {
	for _, key := range "bcdefghijk" {
		_, err := c.Get(t.Context(), name(key), s.load)
		require.NoError(t, err)
	}
}

// What is held and used stays in a cache that has no room for all.
func TestUseOfWhatIsHeldIsNoted(t *testing.T) {
	r := filled(t, 3)
	held := r.hold(0)
	assert.Equal(t, pair{0, 0}, held.value)
	assert.Equal(t, pair{1, 10}, *r.Get(1))
	assert.True(t, r.again(held))
	assert.True(t, r.Add(pair{3, 30}), "for the value that is forgotten")
	assert.Equal(t, pair{0, 0}, *r.Again(0))
	assert.Equal(t, []int{1, 3, 0}, r.Keys())
	r.Remove(0)
	assert.False(t, r.again(held))
	assert.Nil(t, r.Again(0))
	assert.Equal(t, []int{1, 3}, r.Keys(), "what is forgotten does not come back")
}
