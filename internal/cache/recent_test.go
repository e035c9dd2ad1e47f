package cache

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pair is a value that shows its key.
type pair struct{ key, value int }

func filled(t *testing.T, size int) *Recent[int, pair] {
	t.Helper()
	r, err := NewRecent[int, pair](size)
	require.NoError(t, err)
	for i := range size {
		assert.False(t, r.Add(i, pair{i, 10 * i}))
	}
	return r
}

// A small cache forgets what was used the longest ago.
func TestSmallCacheIsExact(t *testing.T) {
	r := filled(t, 3)
	assert.Equal(t, pair{0, 0}, *r.Get(0))
	assert.True(t, r.Add(3, pair{3, 30}), "for the value that is forgotten")
	assert.Nil(t, r.Peek(1))
	assert.Nil(t, r.Get(1))
	assert.Equal(t, []int{2, 0, 3}, r.Keys())
	assert.True(t, r.Remove(2))
	assert.False(t, r.Remove(2))
	assert.Equal(t, 2, r.Len())
	assert.Equal(t, pair{3, 30}, *r.GetOrAdd(3, func(*int, *pair) { panic("it is there") }))
	assert.Equal(t, pair{9, 7}, *r.GetOrAdd(9, func(k *int, v *pair) { *v = pair{*k, 7} }))
	assert.Equal(t, []int{0, 3, 9}, r.Keys())
	_, err := NewRecent[int, pair](0)
	assert.Error(t, err)
}

// One value is made for a key, however many ask for it at once.
func TestOneValueIsMade(t *testing.T) {
	r := filled(t, 100)
	var group sync.WaitGroup
	made := make(chan int, 64)
	for range cap(made) {
		group.Go(func() {
			made <- r.GetOrAdd(-1, func(_ *int, v *pair) { *v = pair{-1, len(made)} }).value
			r.Get(5)
		})
	}
	group.Wait()
	first := <-made
	for range cap(made) - 1 {
		assert.Equal(t, first, <-made)
	}
}

// A value that is forgotten, or replaced, stays as it was for who holds it, and holds
// nothing else.
func TestForgottenValuesStandAlone(t *testing.T) {
	r := filled(t, 3)
	replaced, forgotten := r.Peek(0), r.Peek(1)
	assert.False(t, r.Add(0, pair{0, 5}), "in the place of the last")
	assert.Equal(t, []int{1, 2, 0}, r.Keys())
	_, first := r.find(1)
	r.Add(7, pair{7, 70})
	assert.Equal(t, []int{2, 0, 7}, r.Keys())
	r.makeNewest(first) // its use was noted when it had been forgotten
	assert.Equal(t, []int{2, 0, 7}, r.Keys())
	assert.Equal(t, pair{0, 0}, *replaced)
	assert.Equal(t, pair{1, 10}, *forgotten)
	assert.Equal(t, [2]*kept[int, pair]{}, [2]*kept[int, pair]{first.newer, first.older})
	for _, key := range []int{0, 2, 7} { // from the middle, and both ends
		assert.True(t, r.Remove(key))
	}
	assert.Empty(t, r.Keys())
	r.Add(1, pair{1, 1})
	assert.Equal(t, []int{1}, r.Keys())
}

// Keys of one hash are told apart, whichever of them comes and goes.
func TestKeysOfOneHash(t *testing.T) {
	r, err := NewRecent[int, pair](5)
	require.NoError(t, err)
	r.bits = 1
	for i := range 5 {
		assert.False(t, r.Add(i, pair{i, 10 * i}))
	}
	assert.False(t, r.Add(2, pair{2, 25}), "in the place of the last")
	assert.True(t, r.Add(5, pair{5, 50}))
	for key, want := range map[int]int{1: 10, 2: 25, 3: 30, 4: 40, 5: 50} {
		require.Equal(t, pair{key, want}, *r.Get(key), "key %d", key)
		assert.Equal(t, pair{key, want}, *r.GetOrAdd(key, func(*int, *pair) { panic("it is there") }))
	}
	assert.Nil(t, r.Peek(0))
	assert.Equal(t, 5, r.Len())
	assert.Len(t, r.Keys(), 5)
	for _, key := range []int{3, 1, 5, 2, 4} {
		assert.True(t, r.Remove(key), "key %d", key)
		assert.Nil(t, r.Get(key))
		assert.False(t, r.Remove(key))
	}
	assert.Zero(t, r.Len())
	assert.Empty(t, r.Keys())
}

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
	held := r.findPlace(0)
	assert.Equal(t, pair{0, 0}, held.value)
	assert.Equal(t, pair{1, 10}, *r.Get(1))
	assert.True(t, r.recordUse(held))
	assert.True(t, r.Add(3, pair{3, 30}), "for the value that is forgotten")
	assert.Equal(t, pair{0, 0}, *r.GetUncounted(0))
	assert.Equal(t, []int{1, 3, 0}, r.Keys())
	r.Remove(0)
	assert.False(t, r.recordUse(held))
	assert.Nil(t, r.GetUncounted(0))
	assert.Equal(t, []int{1, 3}, r.Keys(), "what is forgotten does not come back")
}
