package dynalimit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld"
	"github.com/dynalimit/dynalimit/levels"
)

func TestConfigReadsAllLevelsInOneRequest(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, &RepositoryOptions{Now: noon})
		require.NoError(t, second(r.SetConfig(t.Context(), Scope{Everyone: true}, LimitConfig{Limits: []Limit{PerMinute("rpm", 1)}, OnUnavailable: Allow, Version: AnyVersion})))
		require.NoError(t, r.SetLimits(t.Context(), Scope{Everyone: true, Resource: "gpt-4"}, []Limit{PerMinute("rpm", 2)}))
		require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "user-1"}, []Limit{PerMinute("rpm", 3)}))
		require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "user-1", Resource: "gpt-4"}, []Limit{PerMinute("rpm", 4)}))
		require.NoError(t, r.CreateEntity(t.Context(), Entity{ID: "user-1", ParentID: "team-1", Cascade: true}))
		bucket := r.keys.Bucket("user-1", "gpt-4").Attributes()
		bucket["rf"] = schema.Number(5)
		put(t, r, bucket)
		for _, test := range []struct {
			entity, resource string
			level            levels.Level
			capacity         int64
			bucket           schema.Item
		}{
			{"user-1", "gpt-4", levels.Entity, 4, bucket},
			{"user-1", "claude-3", levels.EntityDefault, 3, nil},
			{"user-1", schema.DefaultResource, levels.EntityDefault, 3, nil},
			{"user-2", "gpt-4", levels.Resource, 2, nil},
			{"user-2", "claude-3", levels.System, 1, nil},
		} {
			t.Run(test.entity+" "+test.resource, func(t *testing.T) {
				cfg, bucket, read, err := r.config(t.Context(), test.entity, test.resource, time.Time{})
				require.NoError(t, err)
				assert.Equal(t, test.level, cfg.level)
				assert.Equal(t, test.capacity, cfg.limits[0].Capacity)
				assert.Equal(t, Allow, cfg.onUnavailable)
				assert.Equal(t, test.entity == "user-1", cfg.cascade && cfg.parentID == "team-1")
				assert.Equal(t, noon().UnixMilli(), cfg.readAt)
				assert.True(t, read)
				assert.Equal(t, test.bucket, bucket)

				again, bucket, read, err := r.config(t.Context(), test.entity, test.resource, time.Time{})
				require.NoError(t, err)
				assert.Same(t, cfg, again, "from the cache")
				assert.False(t, read)
				assert.Nil(t, bucket)
			})
		}
		assert.Equal(t, ConfigCacheStats{Hits: 5, Misses: 5, Loads: 5, Size: 5}, r.ConfigCacheStats())
	})
}

func TestConfigRequests(t *testing.T) {
	e := memEngine(t)
	require.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()))
	wire := record(e.db)
	r, err := NewRepository(e.client(wire.Through), "limits", &RepositoryOptions{Principal: tester, Namespace: "eu"})
	require.NoError(t, err)
	before := e.db.Meter()
	_, _, _, err = r.config(t.Context(), "user-1", "gpt-4", time.Time{})
	require.NoError(t, err)
	assert.Equal(t, int64(1), e.db.Meter().Sub(before).Requests())
	assertGolden(t, "config_cold", wire.Take())
	_, err = r.rereadConfig(t.Context(), "user-1", schema.DefaultResource)
	require.NoError(t, err)
	assertGolden(t, "config_reread_default", wire.Take())
}

func TestConfigTicksOrderReads(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	first, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
	require.NoError(t, err)
	between := r.tick()
	second, err := r.rereadConfig(t.Context(), "user-1", "gpt-4")
	require.NoError(t, err)
	assert.Less(t, first.tick, between)
	assert.Less(t, between, second.tick)
	cached, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
	require.NoError(t, err)
	assert.Same(t, second, cached, "a forced read renews the cache")
}

func TestConfigUnprocessedKeysAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "user-1", Resource: "gpt-4"}, []Limit{PerMinute("rpm", 3)}))
		require.NoError(t, r.SetLimits(t.Context(), Scope{Everyone: true}, []Limit{PerMinute("rpm", 1000)}))
		var asked atomic.Bool
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation == "BatchGetItem" && asked.CompareAndSwap(false, true) {
				return ddbmem.Fault{Unprocessed: 3}
			}
			return ddbmem.Fault{}
		})
		cfg, _, read, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
		require.NoError(t, err)
		assert.Equal(t, levels.Entity, cfg.level, "never taken for absent")
		assert.True(t, read)
	})
}

func TestConfigUnprocessedForGoodIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		require.NoError(t, r.SetLimits(t.Context(), Scope{Everyone: true}, []Limit{PerMinute("rpm", 1000)}))
		e.db.SetFaults(unprocessed(1 << 40))
		before := e.db.Meter()
		_, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
		var unavailable *UnavailableError
		require.ErrorAs(t, err, &unavailable)
		assert.ErrorContains(t, err, "6 of 6 keys still unprocessed after 8 tries")
		assert.Equal(t, int64(8), e.db.Meter().Sub(before).Requests())
		assert.Zero(t, r.ConfigCacheStats().Size, "nothing is cached")
		e.db.SetFaults(nil)
		cfg, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
		require.NoError(t, err)
		assert.Equal(t, levels.System, cfg.level)
	})
}

func TestConfigIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} })
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, _, _, err := r.config(ctx, "user-1", "gpt-4", time.Time{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second/2, time.Since(start), "the caller's time")
		_, err = r.rereadConfig(t.Context(), "user-1", "gpt-4")
		require.ErrorIs(t, err, ErrUnavailable, "the repository's own time is not the caller's fault")
		assert.LessOrEqual(t, time.Since(start), time.Second/2+2*time.Second)
	})
}

func TestConfigIsRefreshedWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		require.NoError(t, r.SetLimits(t.Context(), Scope{Everyone: true}, []Limit{PerMinute("rpm", 1)}))
		old, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
		require.NoError(t, err)
		down := errors.New("the table is gone")
		e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError", Message: down.Error()}}
		})
		elapse(time.Minute)
		cfg, bucket, read, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
		require.NoError(t, err)
		assert.Same(t, old, cfg)
		assert.Nil(t, bucket)
		assert.False(t, read, "the bucket was not read")
	})
}

func TestConfigMissingTable(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.open(t, testworld.NewTable(), nil)
		_, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
		require.ErrorIs(t, err, fault.ErrTable)
		assert.ErrorContains(t, err, "CreateTable")
	})
}

func TestConfigOneReaderGetsTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 10 * time.Millisecond} })
		before := e.db.Meter()
		var readers atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, _, read, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
				assert.NoError(t, err)
				if read {
					readers.Add(1)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, int64(1), readers.Load())
		assert.Equal(t, int64(1), e.db.Meter().Sub(before).Requests())
	})
}
