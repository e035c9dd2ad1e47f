package admin_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// zaeTable is a repository on a table with the items that zae-limiter 0.8.1
// wrote.
func zaeTable(t *testing.T, e *engine, opts *dynalimit.RepositoryOptions) *dynalimit.Repository {
	t.Helper()
	r := e.repository(t, opts)
	data, err := os.ReadFile("../internal/schema/testdata/zae-0.8.1-items.json")
	require.NoError(t, err)
	items, err := testworld.DecodeItems(data)
	require.NoError(t, err)
	put(t, r, items...)
	return r
}

func TestForeignTableIsAdministered(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := zaeTable(t, e, nil)
		created := time.Date(2026, 11, 21, 9, 54, 2, 0, time.UTC)
		key := admin.Entity{ID: "key-1", Name: "Key one", ParentID: "proj-1", Cascade: true, CreatedAt: created}
		children, err := collect(admin.New(r).Entities.Children(t.Context(), "proj-1"))
		require.NoError(t, err)
		assert.Equal(t, []admin.Entity{key}, children)
		project, err := admin.New(r).Entities.Get(t.Context(), "proj-1")
		require.NoError(t, err)
		assert.Equal(t, admin.Entity{ID: "proj-1", Name: "Production", Metadata: json.RawMessage(`{"team":"search"}`), CreatedAt: created}, project)

		require.NoError(t, second(admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Entity: "key-1", Resource: "claude-3"}, admin.LimitConfig{Limits: oneLimit, Version: admin.AnyVersion, Only: true})))
		item, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.EntityConfig("key-1", "claude-3"))
		require.NoError(t, err)
		assert.Equal(t, int64(2), schema.ConfigVersion(item))

		require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "key-1"))
		assert.Empty(t, partition(t, r, "key-1"))
		counts, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.EntityResources())
		require.NoError(t, err)
		assert.NotContains(t, counts, "claude-3")
		assert.Equal(t, schema.Number(1), counts["_default_"])
	})
}

// What is written about entities and limits has every attribute that zae-limiter writes,
// with the same value, and so the same type.
func TestWhatAnotherToolReadsIsThere(t *testing.T) {
	data, err := os.ReadFile("../internal/schema/testdata/zae-0.8.1-items.json")
	require.NoError(t, err)
	theirs, err := testworld.DecodeItems(data)
	require.NoError(t, err)
	then := func() time.Time { return time.Date(2026, 11, 21, 9, 54, 2, 0, time.UTC) }
	perMinute := func(rpm, tpm int64) []dynalimit.Limit {
		return []dynalimit.Limit{dynalimit.PerMinute("rpm", rpm), dynalimit.PerMinute("tpm", tpm)}
	}
	key := admin.EntitySetup{
		Entity: admin.Entity{ID: "key-1", Name: "Key one", ParentID: "proj-1", Cascade: true},
		Limits: map[string][]dynalimit.Limit{"claude-3": {dynalimit.PerMinute("rpm", 20), dynalimit.PerHour("tpm", 60_000)}},
	}
	project := admin.EntitySetup{
		Entity: admin.Entity{ID: "proj-1", Name: "Production", Metadata: json.RawMessage(`{"team":"search"}`)},
		Limits: map[string][]dynalimit.Limit{"": {dynalimit.PerMinute("rpm", 1000), dynalimit.PerMinute("tpm", 100_000).WithBurst(150_000)}},
	}
	for name, write := range map[string]func(t *testing.T, r *dynalimit.Repository){
		"in a batch": func(t *testing.T, r *dynalimit.Repository) { create(t, r, []admin.EntitySetup{project, key}) },
		"one by one": func(t *testing.T, r *dynalimit.Repository) {
			for _, s := range []admin.EntitySetup{project, key} {
				e := s.Entity
				e.Name, e.Plan = "another", "pro"
				require.NoError(t, admin.New(r).Entities.Create(t.Context(), e))
				s.Entity.Version = 1
				require.NoError(t, second(admin.New(r).Entities.Update(t.Context(), s.Entity)))
				for resource, limits := range s.Limits {
					require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: e.ID, Resource: resource}, limits))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				r := e.repository(t, &dynalimit.RepositoryOptions{Now: then})
				write(t, r)
				require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, perMinute(100, 10_000)))
				require.NoError(t, second(admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Everyone: true}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 50)}, OnUnavailable: dynalimit.Allow, Version: admin.AnyVersion})))
				compared := 0
				for _, theirs := range theirs {
					at := schema.KeyOf(theirs)
					if strings.HasPrefix(at.SK, schema.BucketsOf) || at.SK == "#VERSION" || strings.HasPrefix(at.PK, "AUDIT#") {
						continue
					}
					compared++
					ours, err := shared.Of(r).Table.Get(t.Context(), "test", at)
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
