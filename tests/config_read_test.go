package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

func TestConfigReadsAllLevelsInOneRequest(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, &dynalimit.RepositoryOptions{Now: noon})
		require.NoError(t, second(r.SetConfig(t.Context(), admin.Scope{Everyone: true}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}, OnUnavailable: dynalimit.Allow, Version: admin.AnyVersion})))
		require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 2)}))
		require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Entity: "user-1"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 3)}))
		require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 4)}))
		require.NoError(t, r.CreateEntity(t.Context(), admin.Entity{ID: "user-1", ParentID: "team-1", Cascade: true}))
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
				cfg, err := r.config(t.Context(), test.entity, test.resource)
				require.NoError(t, err)
				assert.Equal(t, test.level, cfg.Level)
				assert.Equal(t, test.capacity, cfg.limits[0].Capacity)
				assert.Equal(t, dynalimit.Allow, cfg.OnUnavailable)
				assert.Equal(t, test.entity == "user-1", cfg.Cascade && cfg.ParentID == "team-1")
				assert.Equal(t, noon().UnixMilli(), cfg.ReadAt)
				assert.True(t, cfg.Read)
				assert.Equal(t, test.bucket, cfg.Bucket)

				again, err := r.config(t.Context(), test.entity, test.resource)
				require.NoError(t, err)
				assert.False(t, again.Read, "from the cache")
				assert.Nil(t, again.Bucket)
				assert.Equal(t, cfg.limits, again.limits)
			})
		}
		assert.Equal(t, dynalimit.ConfigCacheStats{Hits: 5, Misses: 5, Loads: 5, Size: 5}, r.ConfigCacheStats())
	})
}

func TestConfigRequests(t *testing.T) {
	e := memEngine(t)
	require.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()))
	wire := record(e.db)
	r, err := openRepository(e.client(wire.Through), "limits", &dynalimit.RepositoryOptions{Principal: tester, Namespace: "eu"})
	require.NoError(t, err)
	before := e.db.Meter()
	_, err = r.config(t.Context(), "user-1", "gpt-4")
	require.NoError(t, err)
	assert.Equal(t, int64(1), e.db.Meter().Sub(before).Requests())
	assertGolden(t, "config_cold", wire.Take())
	_, err = r.rereadConfig(t.Context(), "user-1", schema.DefaultResource)
	require.NoError(t, err)
	assertGolden(t, "config_reread_default", wire.Take())
}
