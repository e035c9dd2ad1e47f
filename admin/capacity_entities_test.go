package admin_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// What changes of entities cost: the figures of docs/cost.md.
func TestCostOfEntities(t *testing.T) {
	s := memProcess(t, perMinute())
	r := s.repo
	require.NoError(t, shared.Of(r).Layout.Check(t.Context()))
	created := func(e admin.Entity) func() {
		return func() { require.NoError(t, admin.New(r).Entities.Create(t.Context(), e)) }
	}
	moved := func(parent string) func() {
		return func() {
			read, err := admin.New(r).Entities.Get(t.Context(), "key-1")
			require.NoError(t, err)
			read.Name, read.ParentID = read.Name+"x", parent
			require.NoError(t, second(admin.New(r).Entities.Update(t.Context(), read)))
		}
	}
	for _, step := range []struct {
		name        string
		before, do  func()
		requests    int64
		write, read float64
	}{
		{"CreateEntity", nil, created(admin.Entity{ID: "org"}), 1, 8, 0},
		{"CreateEntity, below a parent", nil, created(admin.Entity{ID: "key-1", ParentID: "org"}), 4, 14, 2.5},
		{"GetEntity and UpdateEntity, of the name", nil, moved("org"), 3, 8, 2},
		{"GetEntity and UpdateEntity, of the parent", nil, moved("team"), 14, 12, 13},
		{"DeleteEntity, of limits for one resource and one bucket", func() {
			require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "key-1"}, []dynalimit.Limit{rpm}))
			s.acquire("key-1", dynalimit.Amounts{"rpm": 1})
		}, func() { require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "key-1")) }, 12, 29, 7.5},
		{"CreateEntities, 100 with limits for one resource", nil, func() { create(t, r, setupsOf(100, "")) }, 10, 1610, 200},
		{"Entities, 100", nil, func() { require.NoError(t, second(collect(admin.New(r).Entities.List(t.Context())))) }, 32, 0, 109},
		{"GetEntities, 100", nil, func() {
			require.NoError(t, second(admin.New(r).Entities.GetMany(t.Context(), idsOf(setupsOf(100, "")))))
		}, 1, 0, 100},
		{"UpdateEntities, 100, of the plan", nil, func() {
			entities, err := admin.New(r).Entities.GetMany(t.Context(), idsOf(setupsOf(100, "")))
			require.NoError(t, err)
			for i := range entities {
				entities[i].Plan = "pro"
			}
			require.NoError(t, second(errorsOf(admin.New(r).Entities.UpdateMany(t.Context(), entities))))
		}, 1 + 9, 600, 203.5},
		{"GetConfigs, 100", nil, func() {
			require.NoError(t, second(admin.New(r).Limits.GetConfigs(t.Context(), scopesOf(setupsOf(100, "")))))
		}, 1, 0, 100},
		{"ResourceBuckets, 100", func() {
			for _, id := range idsOf(setupsOf(100, "")) {
				s.acquire(id, dynalimit.Amounts{"rpm": 1})
			}
		}, func() { require.NoError(t, second(collect(admin.New(r).Buckets.OfResource(t.Context(), model)))) }, 3, 0, 101.5},
		{"ResourceCapacity, 100", nil, func() {
			_, _, err := admin.New(r).Buckets.Capacity(t.Context(), model)
			require.NoError(t, err)
		}, 4, 0, 201.5},
	} {
		if step.before != nil {
			step.before()
		}
		used := s.used(step.do)
		t.Logf("| %s | %d | %v | %v |", step.name, used.Requests(), used.WriteUnits(), used.ReadUnits())
		assert.Equal(t, step.requests, used.Requests(), step.name)
		assert.InDelta(t, step.write, used.WriteUnits(), 0.01, step.name)
		assert.InDelta(t, step.read, used.ReadUnits(), 0.01, step.name)
	}
}
