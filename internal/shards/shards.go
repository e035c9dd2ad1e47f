package shards

import (
	"iter"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// ID names a shard.
type ID = schema.StreamShard

// Shard is a shard of a stream.
type Shard struct {
	ID
	// Parent is the id of the shard that it follows; "" for none.
	Parent string
}

// AllKnown returns the listed shards and the begun ones that the list lacks, without a parent, in the order of
// their streams. A list made while shards changed may lack a begun one, and the loss of a shard must be
// reported before its children are read.
func AllKnown(listed []Shard, begun iter.Seq[ID]) []Shard {
	all := slices.Clone(listed)
	there := make(map[ID]bool, len(listed))
	for _, s := range listed {
		there[s.ID] = true
	}
	for id := range begun {
		if !there[id] {
			there[id] = true
			all = append(all, Shard{ID: id})
		}
	}
	slices.SortStableFunc(all, func(a, b Shard) int { return strings.Compare(a.Stream, b.Stream) })
	return all
}

// ReadableShards returns those of all known shards that may be read now: unfinished ones of the earliest
// unfinished stream. Their parents are finished or unknown.
func ReadableShards(all []Shard, finished func(ID) bool) []Shard {
	known := make(map[ID]bool, len(all))
	for _, s := range all {
		known[s.ID] = true
	}
	behind := func(parent ID) bool {
		return parent.Shard == "" || finished(parent) || !known[parent]
	}
	var ready []Shard
	stream := ""
	for _, s := range all {
		if stream != "" && stream != s.Stream {
			break // an earlier stream is not at its end
		}
		if finished(s.ID) {
			continue
		}
		stream = s.Stream
		if behind(ID{Stream: s.Stream, Shard: s.Parent}) {
			ready = append(ready, s)
		}
	}
	return ready
}
