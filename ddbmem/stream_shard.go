package ddbmem

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// hashRange is a range of hash codes of partition keys, both ends included.
type hashRange struct{ from, to uint64 }

// everyHash has every key.
var everyHash = hashRange{0, math.MaxUint32}

// part returns the i-th, from 0, of n adjoining parts of nearly equal size that cover the range of hash codes.
func (h hashRange) part(i, n int) hashRange {
	size := h.to - h.from + 1
	cut := func(i int) uint64 { return h.from + size*uint64(i)/uint64(n) } // where part i begins
	return hashRange{cut(i), cut(i+1) - 1}
}

// streamShard has the changes of some of a table's items, in their order. Once it is
// closed, its children have the changes that follow.
type streamShard struct {
	id, parent string
	hashes     hashRange
	closed     time.Time // zero while open
	first      int64     // the lowest sequence that a record of it can have
	latest     int64     // the sequence of the latest record; below first for none
	horizon    int64     // the lowest sequence that was not trimmed
	records    []*streamRecord
}

// openShard appends an open shard for a range of hash codes; its records begin at the stream's next sequence
// number. It continues the closed shard parent, or starts a stream if parent is nil.
func (s *stream) openShard(at time.Time, parent *streamShard, hashes hashRange) {
	s.opened++
	shard := &streamShard{
		id:     fmt.Sprintf("shardId-%020d-%08x", at.UnixMilli(), s.opened),
		hashes: hashes, first: s.next, latest: s.next - 1, horizon: s.next,
	}
	if parent != nil {
		shard.parent = parent.id
	}
	s.shards = append(s.shards, shard)
}

// close closes an open shard at a time: it gets no more records. A closed shard keeps its time.
func (h *streamShard) close(at time.Time) {
	if h.closed.IsZero() {
		h.closed = at
	}
}

// splitShards closes every open shard and opens a number of children in its place, which share its range in equal
// parts.
func (s *stream) splitShards(at time.Time, children int) {
	for _, shard := range slices.Clone(s.shards) {
		if !shard.closed.IsZero() {
			continue
		}
		shard.close(at)
		for i := range children {
			s.openShard(at, shard, shard.hashes.part(i, children))
		}
	}
}

// openShardOf returns the open shard that records changes of a partition key. It panics unless the stream is
// enabled.
func (s *stream) openShardOf(key value.Value) *streamShard {
	code := uint64(hashCode(key))
	i := slices.IndexFunc(s.shards, func(shard *streamShard) bool {
		return shard.closed.IsZero() && shard.hashes.from <= code && code <= shard.hashes.to
	})
	return s.shards[i] // the open ones share all hashes
}

// shard returns the shard with an id, and a ResourceNotFoundException if it does not exist.
func (s *stream) shard(id string) (*streamShard, error) {
	for _, shard := range s.shards {
		if shard.id == id {
			return shard, nil
		}
	}
	return nil, newError("ResourceNotFoundException", "Requested resource not found: Shard does not exist")
}

// appendRecord adds a record to the end of the shard and sets the shard's latest sequence number to the
// record's.
func (h *streamShard) appendRecord(r *streamRecord) {
	h.records, h.latest = append(h.records, r), r.sequence
}

// trim drops the records that are older than before and moves the horizon past them.
func (h *streamShard) trim(before time.Time) {
	n := 0
	for n < len(h.records) && h.records[n].at.Before(before) {
		h.horizon = h.records[n].sequence + 1
		n++
	}
	h.records = slices.Delete(h.records, 0, n)
}

// hasEnded reports whether the shard is closed and its last record is before the sequence number from: a
// reader there is done.
func (h *streamShard) hasEnded(from int64) bool { return !h.closed.IsZero() && from > h.latest }

// recordsFrom returns the records with at least the given sequence number, in order. It does not copy them.
func (h *streamShard) recordsFrom(sequence int64) []*streamRecord {
	i, _ := slices.BinarySearchFunc(h.records, sequence, func(r *streamRecord, sequence int64) int {
		if r.sequence < sequence {
			return -1
		}
		return 1
	})
	return h.records[i:]
}

// trim drops the records that are older than before, and the shards that closed before it.
func (s *stream) trim(before time.Time) {
	for _, shard := range s.shards {
		shard.trim(before)
	}
	s.shards = slices.DeleteFunc(s.shards, func(shard *streamShard) bool {
		return !shard.closed.IsZero() && shard.closed.Before(before)
	})
}
