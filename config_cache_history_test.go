package dynalimit

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConfigCacheHistories runs random readers, reloaders, setters and outages
// on one key, in virtual time. What a reader gets is never older than the last
// change this process made before the call, a reload never older than any change
// before it, and without outages nobody sees what changed more than a ttl and a
// read ago.
func TestConfigCacheHistories(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) { cacheHistory(t, seed, seed%2 == 0) })
	}
}

type cacheWorld struct {
	*loader
	cache *configCache
	// evicted is the version of the last change made through this process,
	// changes when each version was stored.
	evicted int64
	changes []time.Time
}

func cacheHistory(t *testing.T, seed uint64, outages bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	cache, l := newTestCache(10)
	w := &cacheWorld{loader: l, cache: cache, changes: []time.Time{{}, time.Now()}}
	var wg sync.WaitGroup
	for range 60 {
		elapse(time.Duration(rng.Int64N(int64(cacheTTL / 4))))
		burst := 1 + rng.IntN(4)
		for range burst {
			switch n := rng.IntN(10); {
			case n < 6:
				wg.Go(func() { w.read(t, seed, outages) })
			case n < 7:
				wg.Go(func() { w.reload(t, seed) })
			case n < 8: // a change by another process: the cache is not told
				w.change()
			default:
				w.cache.evict(func(configKey) bool { return true })
				w.change()
				w.cache.evict(func(configKey) bool { return true })
				w.mu.Lock()
				w.evicted = w.version
				w.mu.Unlock()
			}
			elapse(time.Duration(rng.Int64N(int64(5 * time.Millisecond))))
		}
		if outages {
			w.mu.Lock()
			w.err = nil
			if rng.IntN(3) == 0 {
				w.err = errStore
			}
			w.mu.Unlock()
		}
	}
	wg.Wait()
	s := cache.snapshot()
	require.Positive(t, s.Hits, "seed %d", seed)
	require.Positive(t, s.Loads, "seed %d", seed)
}

func (w *cacheWorld) change() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.changes = append(w.changes, time.Now())
}

func (w *cacheWorld) read(t *testing.T, seed uint64, outages bool) {
	w.mu.Lock()
	least, called := w.evicted, time.Now()
	w.mu.Unlock()
	cfg, err := w.cache.loading.Get(t.Context(), cacheKey, w.load)
	if err != nil {
		assert.ErrorIs(t, err, errStore)
		return
	}
	assert.GreaterOrEqual(t, cfg.readAt, least, "seed %d: older than a change made here", seed)
	w.mu.Lock()
	defer w.mu.Unlock()
	if next := cfg.readAt + 1; !outages && next < int64(len(w.changes)) {
		assert.LessOrEqual(t, called.Sub(w.changes[next]), cacheTTL+w.slow, "seed %d: changed more than a ttl ago", seed)
	}
}

func (w *cacheWorld) reload(t *testing.T, seed uint64) {
	w.mu.Lock()
	least := w.version
	w.mu.Unlock()
	cfg, err := w.cache.loading.Reload(context.WithoutCancel(t.Context()), cacheKey, w.load)
	if err != nil {
		assert.ErrorIs(t, err, errStore)
		return
	}
	assert.GreaterOrEqual(t, cfg.readAt, least, "seed %d: the read began before the call", seed)
}
