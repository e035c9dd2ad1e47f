package admin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/table"
)

// The buckets of a resource are those of every entity that uses it, with what they hold now
// and what was taken from them.
func TestBucketsOfAResourceAreListed(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 40, "tpm": 10_000})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -4_000}))
		s.acquire("user-2", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, second(s.limiter.Acquire(t.Context(), "user-1", model+"-mini", dynalimit.Amounts{"rpm": 60})))
		s.clock.advance(6 * time.Second)
		listed, err := collect(admin.New(s.repo).Buckets.OfResource(t.Context(), model))
		require.NoError(t, err)
		require.Len(t, listed, 2)
		for i, id := range []string{"user-1", "user-2"} {
			own, err := collect(admin.New(s.repo).Buckets.List(t.Context(), id))
			require.NoError(t, err)
			assert.Equal(t, own[0], listed[i])
		}
		assert.Equal(t, dynalimit.Amounts{"rpm": 40, "tpm": 6_000}, listed[0].Consumed)
		assert.EqualValues(t, 70, listed[0].Limits[0].Remaining)
		none, err := collect(admin.New(s.repo).Buckets.OfResource(t.Context(), "nobody-uses-it"))
		require.NoError(t, err)
		assert.Empty(t, none)
		assert.True(t, isValidation(second(collect(admin.New(s.repo).Buckets.OfResource(t.Context(), "a#b")))))
	})
}

// entryOf is an empty bucket that the resource index lists.
func entryOf(r *dynalimit.Repository, entity, resource string) schema.Item {
	item := shared.Of(r).Keys.Bucket(entity, resource).Attributes()
	item[schema.GSI2PK], item[schema.GSI2SK] = schema.String(shared.Of(r).Keys.Resource(resource)), schema.String(schema.BucketEntries+entity)
	return item
}

// A list over the index follows pages, leaves out what expired since, and reads no page
// more than it is asked for.
func TestBucketsOfAResourceFollowPagesAndStop(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		var items []schema.Item
		for i := range 2*table.PageSize + 10 {
			items = append(items, entryOf(r, fmt.Sprintf("e-%03d", i), "x"))
		}
		stray := shared.Of(r).Keys.ResourceConfig("x").Attributes() // not a bucket, in the partition of one
		stray[schema.GSI2PK], stray[schema.GSI2SK] = schema.String(shared.Of(r).Keys.Resource("x")), schema.String(schema.BucketEntries+"stray")
		put(t, r, append(items, stray, entryOf(r, "e-000", "x2"))...)
		listed, err := collect(admin.New(r).Buckets.OfResource(t.Context(), "x"))
		require.NoError(t, err)
		require.Len(t, listed, 2*table.PageSize+10)
		assert.Equal(t, admin.Bucket{EntityID: "e-209", Resource: "x"}, listed[209])
		for b, err := range admin.New(r).Buckets.OfResource(t.Context(), "x") {
			require.NoError(t, err)
			assert.Equal(t, "e-000", b.EntityID)
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, second(collect(admin.New(r).Buckets.OfResource(ctx, "x"))), context.Canceled)
		broken := entryOf(r, "b", "y")
		broken["rf"] = schema.String("soon")
		put(t, r, broken)
		require.ErrorContains(t, second(collect(admin.New(r).Buckets.OfResource(t.Context(), "y"))), "is malformed")
	})
}

// What is used of a resource is summed over entities, of each cascade once, with the refill
// since, and told per entity.
func TestCapacityOfAResource(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		require.NoError(t, admin.New(s.repo).Entities.Create(t.Context(), admin.Entity{ID: "user-1", ParentID: "team", Cascade: true}))
		require.NoError(t, admin.New(s.repo).Entities.Create(t.Context(), admin.Entity{ID: "user-2", ParentID: "team"}))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 40})
		s.acquire("user-2", dynalimit.Amounts{"rpm": 10})
		s.clock.advance(6 * time.Second)
		sums, entities, err := admin.New(s.repo).Buckets.Capacity(t.Context(), model)
		require.NoError(t, err)
		rpm := func(remaining int64) admin.LimitCapacity {
			return admin.LimitCapacity{Name: "rpm", Capacity: 100, Burst: 100, Remaining: remaining, Used: 100 - remaining, Entities: 1}
		}
		require.Len(t, entities, 3)
		for i, want := range []struct {
			id, parent string
			remaining  int64
		}{{"team", "", 70}, {"user-1", "team", 70}, {"user-2", "team", 100}} {
			assert.Equal(t, want.id, entities[i].EntityID)
			assert.Equal(t, want.parent, entities[i].ParentID)
			assert.Contains(t, entities[i].Limits, rpm(want.remaining), want.id)
		}
		assert.Contains(t, sums, admin.LimitCapacity{Name: "rpm", Capacity: 200, Burst: 200, Remaining: 170, Used: 30, Entities: 2})
		sums, entities, err = admin.New(s.repo).Buckets.Capacity(t.Context(), "nobody-uses-it")
		require.NoError(t, err)
		assert.Empty(t, sums)
		assert.Empty(t, entities)
		_, _, err = admin.New(s.repo).Buckets.Capacity(t.Context(), "a#b")
		assert.True(t, isValidation(err))
	})
}

// What is used of a limit counts in the sum where no parent has it: one that is unlimited, at
// any source, or that limits other things.
func TestCapacityWhereParentsHaveOtherLimits(t *testing.T) {
	s := memProcess(t, perMinute())
	ctx := t.Context()
	rpm, tpm := dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 1000)
	require.NoError(t, admin.New(s.repo).Limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{rpm, tpm}))
	for _, e := range []admin.Entity{
		{ID: "free"},
		{ID: "free-key", ParentID: "free", Cascade: true},
		{ID: "few"},
		{ID: "few-key", ParentID: "few", Cascade: true},
		{ID: "org"},
		{ID: "middle", ParentID: "org", Cascade: true},
		{ID: "low", ParentID: "middle", Cascade: true},
	} {
		require.NoError(t, admin.New(s.repo).Entities.Create(ctx, e))
	}
	for _, entity := range []string{"free", "middle"} {
		require.NoError(t, admin.New(s.repo).Limits.SetUnlimited(ctx, admin.Scope{Entity: entity, Resource: model}))
	}
	for entity, limit := range map[string]dynalimit.Limit{"few": rpm, "org": tpm} {
		_, err := admin.New(s.repo).Limits.SetConfig(ctx, admin.Scope{Entity: entity, Resource: model}, admin.LimitConfig{Limits: []dynalimit.Limit{limit}, Only: true})
		require.NoError(t, err)
	}
	s.repo.InvalidateConfig("", "")
	s.acquire("free-key", dynalimit.Amounts{"rpm": 1, "tpm": 20})
	s.acquire("few-key", dynalimit.Amounts{"rpm": 10, "tpm": 200})
	s.acquire("low", dynalimit.Amounts{"rpm": 50, "tpm": 500})
	sums, entities, err := admin.New(s.repo).Buckets.Capacity(ctx, model)
	require.NoError(t, err)
	require.Len(t, entities, 5)
	assert.Equal(t, []admin.LimitCapacity{
		{Name: "rpm", Capacity: 300, Burst: 300, Remaining: 239, Used: 61, Entities: 3},     // free-key, few, low
		{Name: "tpm", Capacity: 3000, Burst: 3000, Remaining: 2280, Used: 720, Entities: 3}, // free-key, few-key, org
	}, sums)
}

// TestCapacityOfParentsThatCount: a limit made for a parent is summed once, and what children use of
// a limit that the parent's bucket has from other sources is summed with the children.
func TestCapacityOfParentsThatCount(t *testing.T) {
	s := memProcess(t, perMinute())
	a, ctx := admin.New(s.repo), t.Context()
	rpm, tpm := dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 1000)
	set := func(at admin.Scope, c admin.LimitConfig) {
		c.Only = !c.Extends
		require.NoError(t, second(a.Limits.SetConfig(ctx, at, c)))
	}
	set(admin.Scope{Everyone: true}, admin.LimitConfig{Limits: []dynalimit.Limit{rpm, tpm}})
	set(admin.Scope{Entity: "org"}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 500)}, Extends: true})
	set(admin.Scope{Plan: "pro"}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 5000)}})
	set(admin.Scope{Everyone: true, Resource: "all"}, admin.LimitConfig{Limits: []dynalimit.Limit{rpm}})
	set(admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Groups: []string{"all"}})
	for _, e := range []admin.Entity{
		{ID: "org"}, {ID: "shop", Plan: "pro"}, {ID: "ann", ParentID: "org"}, {ID: "bob", ParentID: "org", Detached: true}, {ID: "cid", ParentID: "shop"},
	} {
		require.NoError(t, a.Entities.Create(ctx, e))
	}
	s.repo.InvalidateConfig("", "")
	for _, id := range []string{"ann", "bob", "cid", "org"} {
		s.acquire(id, dynalimit.Amounts{"rpm": 10, "tpm": 100})
	}
	sums, _, err := a.Buckets.Capacity(ctx, model)
	require.NoError(t, err)
	assert.Equal(t, []admin.LimitCapacity{
		{Name: "rpm", Capacity: 700, Burst: 700, Remaining: 660, Used: 40, Entities: 3},     // org with ann, bob, cid
		{Name: "tpm", Capacity: 8000, Burst: 8000, Remaining: 7600, Used: 400, Entities: 4}, // org, ann, bob, shop with cid
	}, sums)
	sums, _, err = a.Buckets.Capacity(ctx, "all")
	require.NoError(t, err)
	assert.Equal(t, []admin.LimitCapacity{{Name: "rpm", Capacity: 400, Burst: 400, Remaining: 360, Used: 40, Entities: 4}}, sums, "org's default is not of the group")
}

// TestCapacityOfEntitiesAboveEachOther: who was moved while records were read may be found
// above another that is above it; one of the two counts.
func TestCapacityOfEntitiesAboveEachOther(t *testing.T) {
	rpm := []admin.LimitCapacity{{Name: "rpm", Capacity: 10, Used: 3, Entities: 1}}
	sums := admin.Sum([]admin.EntityCapacity{{EntityID: "a", Limits: rpm}, {EntityID: "b", Limits: rpm}, {EntityID: "key", Limits: rpm}}, map[string]admin.Entity{
		"a": {ParentID: "b", Cascade: true}, "b": {ParentID: "a", Cascade: true}, "key": {ParentID: "a", Cascade: true},
	})
	assert.Equal(t, rpm, sums)

	deep := map[string]admin.Entity{}
	for i := range schema.MaxDepth {
		deep[fmt.Sprint("e", i)] = admin.Entity{ParentID: fmt.Sprint("e", i+1), Cascade: true}
	}
	sums = admin.Sum([]admin.EntityCapacity{{EntityID: "e0", Limits: rpm}, {EntityID: fmt.Sprint("e", schema.MaxDepth), Limits: rpm}}, deep)
	assert.EqualValues(t, 2, sums[0].Entities, "calls do not charge a parent that is so far above")
}
