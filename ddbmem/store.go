package ddbmem

import (
	"hash/fnv"
	"slices"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// primary is an item's primary key; sort is nil for a table without a sort key.
type primary struct{ hash, sort value.Value }

// position orders the rows of one partition: by the sort key of the table or
// index, then by primary key, which only matters in an index.
type position struct {
	sort value.Value
	key  primary
}

type row struct {
	position
	item  value.Map
	size  int
	shown map[string]attributeValue // item in the SDK's types, made when first wanted
}

// newRow returns a row of item at a position, with the item's size.
func newRow(at position, item value.Map) *row {
	return &row{position: at, item: item, size: item.Size()}
}

// attributes returns the row's item in the SDK's types, converted at the first call and then kept in the row.
// Callers must not change it. It is nil for a nil row; the commit lock must be held.
func (r *row) attributes() map[string]attributeValue {
	if r == nil {
		return nil
	}
	if r.shown == nil {
		r.shown = toSDKMap(r.item)
	}
	return r.shown
}

// partition holds the rows of one partition key in order.
type partition struct {
	hash value.Value
	code uint32 // place among the partitions
	rows []*row
}

// store holds the rows of a table or an index.
type store struct {
	parts map[value.Value]*partition
	// order is parts by code, nil when it must be made again.
	order []*partition
	rows  int
}

// newStore returns an empty store.
func newStore() store { return store{parts: map[value.Value]*partition{}} }

// compareKeys compares two key values of one type, and returns a negative number, 0 or a positive number. It
// returns 0 if either is nil, as for a table without a sort key.
func compareKeys(a, b value.Value) int {
	if a == nil || b == nil {
		return 0
	}
	order, _ := value.Compare(a, b)
	return order
}

// comparePositions compares two positions of one partition, by sort key and then by primary key. It returns a
// negative number, 0 or a positive number.
func comparePositions(a, b position) int {
	if c := compareKeys(a.sort, b.sort); c != 0 {
		return c
	}
	if c := compareKeys(a.key.hash, b.key.hash); c != 0 {
		return c
	}
	return compareKeys(a.key.sort, b.key.sort)
}

// find returns the index of the row at a position and true, or the index to insert it at and false.
func (p *partition) find(at position) (int, bool) {
	return slices.BinarySearchFunc(p.rows, at, func(r *row, at position) int { return comparePositions(r.position, at) })
}

// get returns the row at a position in the partition of the key value hash, and nil if it is absent.
func (s *store) get(hash value.Value, at position) *row {
	p := s.parts[hash]
	if p == nil {
		return nil
	}
	if i, ok := p.find(at); ok {
		return p.rows[i]
	}
	return nil
}

// put inserts row r in the partition of the key value hash, in order, or replaces the row at the same position.
// A new partition clears the scan order.
func (s *store) put(hash value.Value, r *row) {
	p := s.parts[hash]
	if p == nil {
		p = &partition{hash: hash, code: hashCode(hash)}
		s.parts[hash] = p
		s.order = nil
	}
	i, ok := p.find(r.position)
	if ok {
		p.rows[i] = r
		return
	}
	p.rows = slices.Insert(p.rows, i, r)
	s.rows++
}

// delete removes the row at a position in the partition of the key value hash; an absent row changes nothing.
// Removing the last row removes the partition and clears the scan order.
func (s *store) delete(hash value.Value, at position) {
	p := s.parts[hash]
	if p == nil {
		return
	}
	i, ok := p.find(at)
	if !ok {
		return
	}
	s.rows--
	if p.rows = slices.Delete(p.rows, i, i+1); len(p.rows) == 0 {
		delete(s.parts, hash)
		s.order = nil
	}
}

// orderedPartitions returns the partitions by hash code, the order of a scan. It sorts them again if a
// partition came or went, and keeps that order. The commit lock must be held for writing; callers must not
// change the slice.
func (s *store) orderedPartitions() []*partition {
	if s.order == nil {
		s.order = make([]*partition, 0, len(s.parts))
		for _, p := range s.parts {
			s.order = append(s.order, p)
		}
		slices.SortFunc(s.order, comparePartitions)
	}
	return s.order
}

// comparePartitions compares two partitions by hash code, then by key, and returns a negative number, 0 or a
// positive number.
func comparePartitions(a, b *partition) int {
	switch {
	case a.code < b.code:
		return -1
	case a.code > b.code:
		return 1
	}
	return compareKeys(a.hash, b.hash)
}

// hashCode returns a 32-bit hash of a partition key's value, which orders scans and assigns stream shards. All
// values of other types than string, binary and number share one code.
func hashCode(v value.Value) uint32 {
	h := fnv.New32a()
	switch v := v.(type) {
	case value.String:
		h.Write([]byte(v))
	case value.Binary:
		h.Write([]byte(v))
	case value.Number:
		h.Write(v.Append(nil))
	}
	return mixBits(h.Sum32())
}

// mixBits returns h with its bits spread over all 32, because the hashes of short keys lie close together.
func mixBits(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}
