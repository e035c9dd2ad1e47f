package dynalimit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/levels"
)

var errStore = errors.New("store down")

// loader is a store whose reads last until they are let go.
type loader struct {
	mu      sync.Mutex
	version int64
	err     error
	reads   int
	slow    time.Duration
	// stored says which version of the configuration there is.
	stored func(version int64) *resolvedConfig
}

func (l *loader) load(ctx context.Context) (*resolvedConfig, error) {
	l.mu.Lock()
	l.reads++
	version, err, slow := l.version, l.err, l.slow
	l.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if l.stored != nil {
		return l.stored(version), nil
	}
	return &resolvedConfig{configKind: &configKind{level: levels.System}, readAt: version}, nil
}

func (l *loader) set(version int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version, l.err = version, err
}

func (l *loader) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

const cacheTTL = time.Minute

func newTestCache(size int) (*configCache, *loader) {
	return newConfigCache(size, cacheTTL, time.Now), &loader{version: 1, slow: 10 * time.Millisecond}
}

// assertVersion is requireVersion for goroutines of a test.
func assertVersion(t *testing.T, want int64, cfg *resolvedConfig, err error) {
	t.Helper()
	if assert.NoError(t, err) {
		assert.Equal(t, want, cfg.readAt)
	}
}

var cacheKey = configKey{entity: "user-1", resource: "gpt-4"}

func requireVersion(t *testing.T, want int64, cfg *resolvedConfig, err error) {
	t.Helper()
	require.NoError(t, err)
	require.Equal(t, want, cfg.readAt)
}

func TestConfigCacheOneRefreshesTheOthersGetTheStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newTestCache(10)
		_, err := c.loading.Get(t.Context(), cacheKey, l.load)
		require.NoError(t, err)
		l.set(2, nil)
		elapse(cacheTTL)
		var wg sync.WaitGroup
		wg.Go(func() {
			cfg, err := c.loading.Get(t.Context(), cacheKey, l.load)
			assertVersion(t, 2, cfg, err)
		})
		synctest.Wait() // the refresh is under way
		start := time.Now()
		for range 3 {
			cfg, err := c.loading.Get(t.Context(), cacheKey, l.load)
			requireVersion(t, 1, cfg, err)
		}
		assert.Zero(t, time.Since(start), "nobody waits")
		wg.Wait()
		cfg, err := c.loading.Get(t.Context(), cacheKey, l.load)
		requireVersion(t, 2, cfg, err)
		assert.Equal(t, ConfigCacheStats{Hits: 1, StaleHits: 3, Misses: 2, Loads: 2, Size: 1}, c.snapshot())
	})
}

func TestConfigCacheUsesTheStaleWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newTestCache(10)
		_, err := c.loading.Get(t.Context(), cacheKey, l.load)
		require.NoError(t, err)
		l.set(2, errStore)
		elapse(cacheTTL)
		for range 3 { // the second and third do not try again at once
			cfg, err := c.loading.Get(t.Context(), cacheKey, l.load)
			requireVersion(t, 1, cfg, err)
		}
		assert.Equal(t, 2, l.count())
		elapse(cache.MaxRefreshPause)
		cfg, err := c.loading.Get(t.Context(), cacheKey, l.load)
		requireVersion(t, 1, cfg, err)
		assert.Equal(t, 3, l.count())
		elapse(cacheTTL)
		_, err = c.loading.Get(t.Context(), cacheKey, l.load)
		require.ErrorIs(t, err, errStore, "for one more ttl, not for ever")
		l.set(2, nil)
		cfg, err = c.loading.Get(t.Context(), cacheKey, l.load)
		requireVersion(t, 2, cfg, err)
	})
}

func TestConfigCacheDoesNotHideWhatTheStoreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newTestCache(10)
		_, err := c.loading.Get(t.Context(), cacheKey, l.load)
		require.NoError(t, err)
		l.set(2, invalid("stored limits", "are broken"))
		elapse(cacheTTL)
		for range 2 {
			_, err = c.loading.Get(t.Context(), cacheKey, l.load)
			require.True(t, isValidation(err))
		}
		assert.Zero(t, c.snapshot().Size)
	})
}

func TestConfigCacheEvictionDropsReadsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newTestCache(10)
		l.slow = time.Second
		var wg sync.WaitGroup
		wg.Go(func() {
			cfg, err := c.loading.Get(t.Context(), cacheKey, l.load)
			assertVersion(t, 1, cfg, err) // its call began before the change
		})
		synctest.Wait()
		l.set(2, nil)
		c.evict(func(k configKey) bool { return k == cacheKey })
		cfg, err := c.loading.Get(t.Context(), cacheKey, l.load)
		requireVersion(t, 2, cfg, err)
		wg.Wait()
		cfg, err = c.loading.Get(t.Context(), cacheKey, l.load)
		requireVersion(t, 2, cfg, err)
		assert.Equal(t, 2, l.count())
	})
}

// What is dropped by its key alone does not come back from a read under way either.
func TestConfigCacheDropsTheReadOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newTestCache(10)
		for _, key := range []configKey{cacheKey, {entity: "user-2", resource: "gpt-4"}} {
			go func() { _, _ = c.loading.Get(t.Context(), key, l.load) }()
		}
		synctest.Wait()
		c.drop(cacheKey)
		elapse(time.Second)
		assert.Nil(t, c.fresh(cacheKey))
		assert.NotNil(t, c.fresh(configKey{entity: "user-2", resource: "gpt-4"}))
	})
}

// A clock that was set back makes an entry old, not young for as long as it went
// back.
func TestConfigCacheAfterAClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := time.Duration(0)
		l := &loader{version: 1}
		c := newConfigCache(10, cacheTTL, func() time.Time { return time.Now().Add(-back) })
		cfg, err := c.loading.Get(t.Context(), cacheKey, l.load)
		requireVersion(t, 1, cfg, err)
		l.set(2, nil)
		back = time.Hour
		cfg, err = c.loading.Get(t.Context(), cacheKey, l.load)
		requireVersion(t, 2, cfg, err)
	})
}

func TestConfigCacheReloadDoesNotJoinAFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newTestCache(10)
		l.slow = time.Second
		var wg sync.WaitGroup
		wg.Go(func() {
			cfg, err := c.loading.Get(t.Context(), cacheKey, l.load)
			assertVersion(t, 1, cfg, err)
		})
		synctest.Wait()
		l.set(2, nil)
		cfg, err := c.loading.Reload(t.Context(), cacheKey, l.load)
		requireVersion(t, 2, cfg, err)
		wg.Wait()
	})
}

func TestConfigCacheServesFreshThenReadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newTestCache(10)
		get := func() (*resolvedConfig, error) { return c.loading.Get(t.Context(), cacheKey, l.load) }
		cfg, err := get()
		requireVersion(t, 1, cfg, err)
		l.set(2, nil)
		elapse(cacheTTL - 11*time.Millisecond)
		cfg, err = get()
		requireVersion(t, 1, cfg, err)
		elapse(time.Millisecond) // the ttl counts from the start of the read
		cfg, err = get()
		requireVersion(t, 2, cfg, err)
		assert.Equal(t, ConfigCacheStats{Hits: 1, Misses: 2, Loads: 2, Size: 1}, c.snapshot())
	})
}

// elapse lets d of the bubble's time go by.
func elapse(d time.Duration) { <-time.After(d) }
