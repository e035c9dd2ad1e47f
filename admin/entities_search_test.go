package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

func idsOfEntities(entities []admin.Entity) (ids []string) {
	for _, e := range entities {
		ids = append(ids, e.ID)
	}
	return ids
}

// TestSearchFindsIDsByPrefix: pages of any size have all ids with the prefix, in order, each once.
func TestSearchFindsIDsByPrefix(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r, ctx := e.repository(t, nil).As(tester), t.Context()
		var ids []string
		var setups []admin.EntitySetup
		for i := range 120 {
			for _, form := range []string{"acme-%d", "acme.key-%d"} {
				ids = append(ids, fmt.Sprintf(form, i))
				setups = append(setups, admin.EntitySetup{Entity: admin.Entity{ID: ids[len(ids)-1]}})
			}
		}
		ids, setups = append(ids, "acme", "Acme", "acmf"), append(setups, admin.EntitySetup{Entity: admin.Entity{ID: "acme"}}, admin.EntitySetup{Entity: admin.Entity{ID: "Acme"}}, admin.EntitySetup{Entity: admin.Entity{ID: "acmf"}})
		create(t, r, setups)
		slices.Sort(ids)
		for _, prefix := range []string{"", "a", "acme", "acme.", "acme.key-1", "Acme", "b"} {
			for _, size := range []int{1, 7, 100} {
				if size == 1 && prefix != "acme.key-1" {
					continue
				}
				var want, got []string
				for _, id := range ids {
					if strings.HasPrefix(id, prefix) {
						want = append(want, id)
					}
				}
				for after := ""; ; after = got[len(got)-1] {
					page, err := admin.New(r).Entities.Search(ctx, prefix, after, size)
					require.NoError(t, err)
					got = append(got, idsOfEntities(page)...)
					if len(page) < size {
						break
					}
				}
				assert.Equal(t, want, got, "%q in pages of %d", prefix, size)
			}
		}
		_, err := admin.New(r).Entities.Search(ctx, "a b", "", 10)
		requireInvalid(t, err, "prefix")
		_, err = admin.New(r).Entities.Search(ctx, "", "#", 10)
		requireInvalid(t, err, "after")
		_, err = admin.New(r).Entities.Search(ctx, "", "", 101)
		requireInvalid(t, err, "n")
	})
}

// TestTopsAreListed: a record without a parent is a top from its first child on, and not while it has a parent.
func TestTopsAreListed(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r, ctx := e.repository(t, nil).As(tester), t.Context()
		n := admin.New(r).Entities
		tops := func() []string {
			page, err := n.Tops(ctx, "", 100)
			require.NoError(t, err)
			return idsOfEntities(page)
		}
		for _, e := range []admin.Entity{
			{ID: "org"}, {ID: "alone"}, {ID: "zeta"}, {ID: "team", ParentID: "org"}, {ID: "key", ParentID: "team"}, {ID: "key-2", ParentID: "team"}, {ID: "z1", ParentID: "zeta"},
		} {
			require.NoError(t, n.Create(ctx, e))
		}
		assert.Equal(t, []string{"org", "zeta"}, tops())
		page, err := n.Tops(ctx, "org", 1)
		require.NoError(t, err)
		assert.Equal(t, []string{"zeta"}, idsOfEntities(page))
		page, err = n.ChildrenAfter(ctx, "team", "key", 10)
		require.NoError(t, err)
		assert.Equal(t, []string{"key-2"}, idsOfEntities(page))

		create(t, r, []admin.EntitySetup{{Entity: admin.Entity{ID: "a-org"}}, {Entity: admin.Entity{ID: "a-key", ParentID: "a-org"}}, {Entity: admin.Entity{ID: "a-key-2", ParentID: "a-key"}}})
		assert.Equal(t, []string{"a-org", "org", "zeta"}, tops(), "made together with its child")
		for _, id := range []string{"a-key-2", "a-key", "a-org"} {
			require.NoError(t, n.Delete(ctx, id))
		}

		move := func(id, parent string) {
			read, err := n.Get(ctx, id)
			require.NoError(t, err)
			read.ParentID = parent
			require.NoError(t, second(n.Update(ctx, read)))
		}
		move("team", "")
		assert.Equal(t, []string{"org", "team", "zeta"}, tops(), "a team that leaves its organisation")
		move("org", "zeta")
		assert.Equal(t, []string{"team", "zeta"}, tops())
	})
}

// TestOwnedReadsOnePartition: the record, the configurations and the buckets, and no usage.
func TestOwnedReadsOnePartition(t *testing.T) {
	s := memProcess(t, perMinute())
	n, ctx := admin.New(s.repo).Entities, t.Context()
	require.NoError(t, n.Create(ctx, admin.Entity{ID: "key-1", Name: "Key"}))
	require.NoError(t, admin.New(s.repo).Limits.Set(ctx, admin.Scope{Entity: "key-1"}, []dynalimit.Limit{rpm}))
	s.acquire("key-1", dynalimit.Amounts{"rpm": 1})
	item := schema.Key{PK: shared.Of(s.repo).Keys.Entity("key-1"), SK: "#USAGE#" + model + "#2026-01-01T00:00:00Z"}.Attributes()
	put(t, s.repo, item)
	var owned admin.Owned
	var err error
	used := s.used(func() { owned, err = n.Owned(ctx, "key-1") })
	require.NoError(t, err)
	assert.Equal(t, []any{int64(1), 1.0}, []any{used.Requests(), used.ReadUnits()})
	assert.Equal(t, "Key", owned.Entity.Name)
	require.Len(t, owned.Configs, 1)
	assert.Equal(t, admin.Scope{Entity: "key-1"}, owned.Configs[0].Scope)
	require.Len(t, owned.Buckets, 1)
	listed, err := collect(admin.New(s.repo).Buckets.List(ctx, "key-1"))
	require.NoError(t, err)
	assert.Equal(t, listed, owned.Buckets)
	many, err := admin.New(s.repo).Buckets.GetMany(ctx, []admin.BucketID{{"key-2", model}, {"key-1", model}})
	require.NoError(t, err)
	assert.Equal(t, []admin.Bucket{{EntityID: "key-2", Resource: model}, listed[0]}, many)
	none, err := n.Owned(ctx, "key-2")
	require.NoError(t, err)
	assert.Equal(t, admin.Owned{Entity: admin.Entity{ID: "key-2"}}, none)
}

// TestPagesCostTheSameInALargeTable: a page of 50, among 10,000 entities. With 100,000 it costs the same.
func TestPagesCostTheSameInALargeTable(t *testing.T) {
	s := memProcess(t, nil)
	keys, ctx := shared.Of(s.repo).Keys, t.Context()
	for i := range 10_000 {
		put(t, s.repo, schema.EntityRecord{ID: fmt.Sprintf("org-%d.key-%d", i%10, i), ParentID: fmt.Sprintf("org-%d", i%10), Version: 1}.Item(keys, nil))
	}
	n := admin.New(s.repo).Entities
	for name, c := range map[string]struct {
		read     func() ([]admin.Entity, error)
		requests int64
		units    float64
	}{
		"search":   {func() ([]admin.Entity, error) { return n.Search(ctx, "org-3.key-1", "", 50) }, 17, 33},
		"children": {func() ([]admin.Entity, error) { return n.ChildrenAfter(ctx, "org-3", "org-3.key-5", 50) }, 1, 2},
	} {
		var page []admin.Entity
		var err error
		used := s.used(func() { page, err = c.read() })
		require.NoError(t, err)
		assert.Len(t, page, 50)
		t.Logf("%s: %d requests, %v read units", name, used.Requests(), used.ReadUnits())
		assert.LessOrEqual(t, used.Requests(), c.requests, name)
		assert.LessOrEqual(t, used.ReadUnits(), c.units, name)
	}
}
