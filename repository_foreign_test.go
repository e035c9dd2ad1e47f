package dynalimit

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/itemjson"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// zaeTable is a repository on a table with the items that zae-limiter 0.8.1
// wrote.
func zaeTable(t *testing.T, e *engine, opts *RepositoryOptions) *Repository {
	t.Helper()
	r := e.repository(t, opts)
	data, err := os.ReadFile("internal/schema/testdata/zae-0.8.1-items.json")
	require.NoError(t, err)
	items, err := itemjson.Items(data)
	require.NoError(t, err)
	put(t, r, items...)
	return r
}

func TestForeignConfiguration(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := zaeTable(t, e, nil)
		perMinute := func(rpm, tpm int64) []Limit { return []Limit{PerMinute("rpm", rpm), PerMinute("tpm", tpm)} }
		for _, test := range []struct {
			entity, resource string
			level            ConfigLevel
			limits           []Limit
			parent           string
		}{
			{"key-1", "claude-3", LevelEntity, []Limit{PerMinute("rpm", 20), PerHour("tpm", 60_000)}, "proj-1"},
			{"key-1", "gpt-4", LevelResource, perMinute(100, 10_000), "proj-1"},
			{"proj-1", "gpt-4", LevelEntityDefault, []Limit{PerMinute("rpm", 1000), PerMinute("tpm", 100_000).WithBurst(150_000)}, ""},
			{"user-9", "other", LevelSystem, []Limit{PerMinute("rpm", 50)}, ""},
		} {
			cfg, bucket, read, err := r.config(t.Context(), test.entity, test.resource, time.Time{})
			require.NoError(t, err)
			assert.Equal(t, test.level, cfg.level)
			assert.Equal(t, test.limits, cfg.limits)
			assert.Equal(t, test.parent, cfg.parentID)
			assert.Equal(t, test.parent != "", cfg.cascade)
			assert.Equal(t, Allow, cfg.onUnavailable)
			assert.True(t, read)
			assert.Equal(t, schema.String(test.resource), bucket["resource"], "its bucket came along")
		}
	})
}

func TestForeignTableIsAdministered(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := zaeTable(t, e, nil)
		created := time.Date(2026, 11, 21, 9, 54, 2, 0, time.UTC)
		key := Entity{ID: "key-1", Name: "Key one", ParentID: "proj-1", Cascade: true, CreatedAt: created}
		children, err := collect(r.Children(t.Context(), "proj-1"))
		require.NoError(t, err)
		assert.Equal(t, []Entity{key}, children)
		project, err := r.GetEntity(t.Context(), "proj-1")
		require.NoError(t, err)
		assert.Equal(t, Entity{ID: "proj-1", Name: "Production", Metadata: json.RawMessage(`{"team":"search"}`), CreatedAt: created}, project)

		require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "key-1", Resource: "claude-3"}, oneLimit))
		item, err := r.store.Get(t.Context(), "test", r.keys.EntityConfig("key-1", "claude-3"))
		require.NoError(t, err)
		assert.Equal(t, int64(2), schema.ConfigVersion(item))

		require.NoError(t, r.DeleteEntity(t.Context(), "key-1"))
		assert.Empty(t, partition(t, r, "key-1"))
		counts, err := r.store.Get(t.Context(), "test", r.keys.EntityResources())
		require.NoError(t, err)
		assert.NotContains(t, counts, "claude-3")
		assert.Equal(t, schema.Number(1), counts["_default_"])
	})
}

// What is written about entities and limits has every attribute that zae-limiter writes,
// with the same value, and so the same type.
func TestWhatAnotherToolReadsIsThere(t *testing.T) {
	data, err := os.ReadFile("internal/schema/testdata/zae-0.8.1-items.json")
	require.NoError(t, err)
	theirs, err := itemjson.Items(data)
	require.NoError(t, err)
	then := func() time.Time { return time.Date(2026, 11, 21, 9, 54, 2, 0, time.UTC) }
	perMinute := func(rpm, tpm int64) []Limit { return []Limit{PerMinute("rpm", rpm), PerMinute("tpm", tpm)} }
	key := EntitySetup{
		Entity: Entity{ID: "key-1", Name: "Key one", ParentID: "proj-1", Cascade: true},
		Limits: map[string][]Limit{"claude-3": {PerMinute("rpm", 20), PerHour("tpm", 60_000)}},
	}
	project := EntitySetup{
		Entity: Entity{ID: "proj-1", Name: "Production", Metadata: json.RawMessage(`{"team":"search"}`)},
		Limits: map[string][]Limit{"": {PerMinute("rpm", 1000), PerMinute("tpm", 100_000).WithBurst(150_000)}},
	}
	for name, write := range map[string]func(t *testing.T, r *Repository){
		"in a batch": func(t *testing.T, r *Repository) { create(t, r, []EntitySetup{project, key}) },
		"one by one": func(t *testing.T, r *Repository) {
			for _, s := range []EntitySetup{project, key} {
				e := s.Entity
				e.Name, e.Plan = "another", "pro"
				require.NoError(t, r.CreateEntity(t.Context(), e))
				s.Entity.Version = 1
				require.NoError(t, second(r.UpdateEntity(t.Context(), s.Entity)))
				for resource, limits := range s.Limits {
					require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: e.ID, Resource: resource}, limits))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				r := e.repository(t, &RepositoryOptions{Now: then})
				write(t, r)
				require.NoError(t, r.SetLimits(t.Context(), Scope{Resource: "gpt-4"}, perMinute(100, 10_000)))
				require.NoError(t, second(r.SetConfig(t.Context(), Scope{}, LimitConfig{Limits: []Limit{PerMinute("rpm", 50)}, OnUnavailable: Allow, Version: AnyVersion})))
				compared := 0
				for _, theirs := range theirs {
					at := schema.KeyOf(theirs)
					if strings.HasPrefix(at.SK, schema.BucketsOf) || at.SK == "#VERSION" || strings.HasPrefix(at.PK, "AUDIT#") {
						continue
					}
					compared++
					ours, err := r.store.Get(t.Context(), "test", at)
					require.NoError(t, err)
					for attribute, value := range theirs {
						if attribute == "config_version" { // a number as theirs is, which counts from when it was made
							assert.IsType(t, value, ours[attribute])
							continue
						}
						assert.Equal(t, value, ours[attribute], "%v %s", at, attribute)
					}
				}
				assert.Equal(t, 8, compared)
			})
		})
	}
}
