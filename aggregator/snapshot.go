package aggregator

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// pair is an entity and a resource that it used.
type pair struct{ entity, resource string }

// shard returns the shard, from 0 to UsageShards-1, of the indexes that lists the usage of the pair in every
// hour and day.
func (p pair) shard() int { return schema.UsageShard(p.entity, p.resource) }

// comparePairs compares pairs for sorting: by shard, then entity, then resource.
func comparePairs(a, b pair) int {
	return cmp.Or(cmp.Compare(a.shard(), b.shard()), strings.Compare(a.entity, b.entity), strings.Compare(a.resource, b.resource))
}

// pairsOf returns the pairs of entity and resource in the given keys of snapshots, each once, sorted. It
// ignores other keys.
func pairsOf(snapshots []schema.Key) []pair {
	found := map[pair]bool{}
	for _, key := range snapshots {
		if _, entity, resource, _, ok := schema.UsageOf(key); ok {
			found[pair{entity, resource}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), comparePairs)
}

// hourly is a snapshot.
type hourly struct {
	pair
	key      schema.Key
	hour     time.Time
	place    schema.UsagePlace
	closed   bool
	snapshot schema.UsageSnapshot
}

// decodeHourly decodes a snapshot with its key. closed is false, and place empty, while no Closer has stored
// the entity's place in it.
func decodeHourly(item schema.Item) (h hourly, err error) {
	h.key = schema.KeyOf(item)
	h.place, h.closed = schema.ClosedPlace(item)
	_, h.entity, h.resource, h.hour, _ = schema.UsageOf(h.key)
	h.snapshot, err = schema.DecodeUsage(item)
	return h, err
}
