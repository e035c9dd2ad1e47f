package config

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// fakeTable is a Store in memory, and its clock. Every source that it stores has one limit, named after its
// owner, and extends the less specific ones.
type fakeTable struct {
	now   time.Time
	keys  schema.Keys
	items map[schema.Key]schema.Item
	reads [][]schema.Key
	ticks int64
}

func newFakeTable() *fakeTable {
	return &fakeTable{now: time.Unix(1_000_000, 0), keys: schema.NewKeys(""), items: map[schema.Key]schema.Item{}}
}

func (f *fakeTable) cache(ttl time.Duration) *Cache {
	return New(Options{
		Store: f, Now: func() time.Time { return f.now }, Clock: f, Keys: f.keys, Size: 100, TTL: ttl, Log: slog.New(slog.DiscardHandler),
		Loaded: func(Key, time.Duration, error) {},
	})
}

func (f *fakeTable) NowMS() int64    { return f.now.UnixMilli() }
func (f *fakeTable) LatestMS() int64 { return f.now.UnixMilli() }
func (f *fakeTable) Tick() int64     { f.ticks++; return f.ticks }
func (f *fakeTable) Away() error     { return nil }

func (f *fakeTable) ReadSources(_ context.Context, keys []schema.Key, _ func() []schema.ConfigOwner) (map[schema.Key]schema.Item, error) {
	return f.ReadPlan(context.Background(), keys)
}

func (f *fakeTable) ReadPlan(_ context.Context, keys []schema.Key) (map[schema.Key]schema.Item, error) {
	f.reads = append(f.reads, keys)
	found := map[schema.Key]schema.Item{}
	for _, key := range keys {
		if item := f.items[key]; item != nil {
			found[key] = item
		}
	}
	return found, nil
}

// set stores the source of an owner: its limit has the capacity.
func (f *fakeTable) set(o schema.ConfigOwner, name string, capacity int64) {
	c := schema.ConfigItem{Version: 1, Extends: true, Limits: []schema.ConfigLimit{{Name: name, Capacity: capacity, Burst: capacity, RefillAmount: capacity, RefillPeriod: time.Minute}}}
	f.items[f.keys.Config(o.Normal())] = c.Item(f.keys, o.Normal(), nil)
}

// load returns the capacities of the limits of an entity on the resource m, in whole tokens.
func (f *fakeTable) load(t require.TestingT, c *Cache, entity string) map[string]int64 {
	found, err := c.Get(entity)
	require.NoError(t, err)
	limits := map[string]int64{}
	if found.Limits != nil {
		for _, l := range found.Limits.Limits {
			limits[l.Name] = l.Capacity / milli
		}
	}
	return limits
}

// Get is Fresh, or Load, of an entity on the resource m.
func (c *Cache) Get(entity string) (Found, error) {
	key := GivenKey{Key: Key{Entity: entity, Resource: "m"}}
	if cfg := c.Fresh(key); cfg != nil {
		return Found{Resolved: cfg}, nil
	}
	return c.Load(context.Background(), Ask{GivenKey: key, Last: c.RecentlyExpired(key)}, time.Time{})
}

// The items of the resource, the system and a plan are read once for many expired configurations. Each ends
// with the TTL of its oldest item.
func TestSharedItemsAreReadOnce(t *testing.T) {
	f := newFakeTable()
	c := f.cache(time.Minute)
	f.set(schema.ConfigOwner{}, "system", 1)
	f.set(schema.ConfigOwner{Plan: "gold", Resource: "m"}, "plan", 2)
	f.enrol("ann", "bob")
	want := map[string]int64{"system": 1, "plan": 2}
	for _, id := range []string{"ann", "bob"} {
		require.Equal(t, want, f.load(t, c, id), "the sources, then the plan")
	}
	require.Equal(t, []int{6, 2, 6, 2}, f.sizes())

	f.now = f.now.Add(time.Minute)
	require.Equal(t, want, f.load(t, c, "ann"))
	f.now = f.now.Add(10 * time.Second)
	require.Equal(t, want, f.load(t, c, "bob"))
	require.Equal(t, []int{6, 2, 4}, f.sizes(), "the record, its two sources, the bucket")
	f.set(schema.ConfigOwner{}, "system", 7) // by another process
	f.now = f.now.Add(49 * time.Second)
	require.Equal(t, want, f.load(t, c, "bob"))
	f.now = f.now.Add(time.Second)
	require.EqualValues(t, 7, f.load(t, c, "bob")["system"], "a minute after the read of the system's item")
	require.Equal(t, []int{6, 2}, f.sizes())

	f.set(schema.ConfigOwner{}, "system", 8)
	c.InvalidateOwners(schema.ConfigOwner{})
	require.EqualValues(t, 8, f.load(t, c, "ann")["system"], "a change of this process is in force at once")
}

// A configuration made from an item in memory has the stamps of that item's read.
func TestSharedItemsKeepTheirStamps(t *testing.T) {
	f := newFakeTable()
	c := f.cache(time.Minute)
	for _, id := range []string{"ann", "bob"} {
		f.load(t, c, id)
	}
	f.now = f.now.Add(time.Minute)
	f.load(t, c, "ann")
	before, _ := c.Get("ann")
	f.now = f.now.Add(time.Second)
	after, err := c.Get("bob")
	require.NoError(t, err)
	assert.Equal(t, before.ReadAt, after.ReadAt)
	assert.Equal(t, before.Tick, after.Tick)
	assert.Equal(t, f.NowMS(), after.RecordReadAt())
}

// Another process lowers the system's limit, and then takes an entity's own away: nobody sees the entity under
// the old limit of the system.
func TestSharedItemsDoNotMixWithNewerOnes(t *testing.T) {
	f := newFakeTable()
	c := f.cache(time.Minute)
	own := schema.ConfigOwner{Entity: "bob", Resource: "m"}
	f.set(schema.ConfigOwner{}, "rpm", 100)
	f.set(own, "rpm", 5)
	for range 2 {
		f.load(t, c, "ann")
		require.EqualValues(t, 5, f.load(t, c, "bob")["rpm"])
		f.now = f.now.Add(time.Minute)
	}
	f.load(t, c, "ann")
	f.set(schema.ConfigOwner{}, "rpm", 10)
	delete(f.items, f.keys.Config(own))
	require.EqualValues(t, 10, f.load(t, c, "bob")["rpm"])
}

// A read that began before a change of this process leaves nothing in memory.
func TestSharedItemsReadBeforeAChangeAreDropped(t *testing.T) {
	f := newFakeTable()
	c := f.cache(time.Minute)
	f.set(schema.ConfigOwner{}, "system", 1)
	f.load(t, c, "bob")
	f.now = f.now.Add(time.Minute)
	read := &configRead{of: c, key: GivenKey{Key: Key{Entity: "ann", Resource: "m"}}}
	system := []schema.Key{f.keys.SystemConfig()}
	_, err := read.readShared(&storedItems{}, system, system, func(unread []schema.Key) (map[schema.Key]schema.Item, error) {
		c.InvalidateOwners(schema.ConfigOwner{})
		return f.ReadPlan(t.Context(), unread)
	})
	require.NoError(t, err)
	known, _ := c.shared.takeRecent([]schema.Key{f.keys.SystemConfig()}, sharedItem{read: f.now})
	require.Empty(t, known)
}

// Histories of changes, by this process and by others: a configuration has every change of this process, and
// every change of others that is a TTL old. It was in force as a whole.
func TestSharedItemsHistories(t *testing.T) {
	owners := map[string]schema.ConfigOwner{"system": {}, "resource": {Resource: "m"}, "plan": {Plan: "gold", Resource: "m"}, "own": {Entity: "a", Resource: "m"}}
	names := slices.Sorted(maps.Keys(owners))
	rapid.Check(t, func(t *rapid.T) {
		const ttl = 40 * time.Second
		f := newFakeTable()
		c := f.cache(ttl)
		f.enrol("a", "b", "c")
		type change struct {
			at     time.Time
			ours   bool
			own    bool // of the entity a alone
			limits map[string]int64
		}
		history := []change{{f.now, true, false, map[string]int64{}}}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch event := rapid.SampledFrom([]string{"load", "load", "pass", "ours", "theirs"}).Draw(t, "event"); event {
			case "pass":
				f.now = f.now.Add(time.Duration(rapid.IntRange(1, 25).Draw(t, "seconds")) * time.Second)
			case "load":
				entity := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "entity")
				got, known := f.load(t, c, entity), false
				for i := len(history) - 1; i >= 0 && !known; i-- {
					want := maps.Clone(history[i].limits)
					if entity != "a" {
						delete(want, "own")
					}
					known = maps.Equal(want, got)
					if history[i].ours && (entity == "a" || !history[i].own) || f.now.Sub(history[i].at) >= ttl {
						break
					}
				}
				require.True(t, known, "%s: %v of %v", entity, got, history)
			default:
				name := rapid.SampledFrom(names).Draw(t, "source")
				limits := maps.Clone(history[len(history)-1].limits)
				limits[name] = int64(n + 1)
				f.set(owners[name], name, limits[name])
				if event == "ours" {
					c.InvalidateOwners(owners[name])
				}
				history = append(history, change{f.now, event == "ours", name == "own", limits})
			}
		}
	})
}

// enrol stores records of entities on the plan gold.
func (f *fakeTable) enrol(ids ...string) {
	for _, id := range ids {
		f.items[f.keys.Meta(id)] = schema.EntityRecord{ID: id, Plan: "gold", Version: 1}.Item(f.keys, nil)
	}
}

// sizes returns the numbers of items of the reads since the last call.
func (f *fakeTable) sizes() (sizes []int) {
	for _, read := range f.reads {
		sizes = append(sizes, len(read))
	}
	f.reads = nil
	return sizes
}
