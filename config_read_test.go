package dynalimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/schema"
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
