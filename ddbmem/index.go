package ddbmem

import (
	"slices"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// index is a global secondary index. It is updated with the table, so its reads
// are never stale.
type index struct {
	keySchema
	name       string
	projection string // ALL, KEYS_ONLY or INCLUDE
	include    []string
	throughput throughput
	store
}

// entryOf returns the index's row for the table's row r, with the projected attributes. It is nil if r is nil
// or lacks a key attribute of ix, because the index then leaves the item out.
func (ix *index) entryOf(t *table, r *row) *row {
	if r == nil {
		return nil
	}
	for _, name := range ix.names() {
		if _, ok := r.item[name]; !ok {
			return nil
		}
	}
	at := position{key: r.key}
	if ix.sort != "" {
		at.sort = r.item[ix.sort]
	}
	if ix.projection == "ALL" {
		return &row{position: at, item: r.item, size: r.size}
	}
	kept := value.Map{}
	for _, names := range [][]string{t.names(), ix.names(), ix.include} {
		for _, name := range names {
			if v, ok := r.item[name]; ok {
				kept[name] = v
			}
		}
	}
	return newRow(at, kept)
}

// projectsAttribute reports whether entries of ix have the attribute: a projected one or a key of t or ix.
func (ix *index) projectsAttribute(t *table, name string) bool {
	return ix.projection == "ALL" || t.hasAttribute(name) || ix.hasAttribute(name) || slices.Contains(ix.include, name)
}

// updateEntry replaces the index entry of one item, or adds or removes it. The rows old and now are the table's
// before and after the change, nil if the item is absent. The commit lock must be held.
func (ix *index) updateEntry(t *table, old, now *row) {
	before, after := ix.entryOf(t, old), ix.entryOf(t, now)
	if before != nil && (after == nil || !ix.sameKey(before, after)) {
		ix.delete(before.item[ix.hash], before.position)
	}
	if after != nil {
		ix.put(after.item[ix.hash], after)
	}
}

// sameKey reports whether two entries have the same hash and sort key in ix.
func (ix *index) sameKey(a, b *row) bool {
	return a.item[ix.hash] == b.item[ix.hash] && a.sort == b.sort
}

// writeUnits returns the write units that ix costs for a change of one item. old and now are the table's
// rows, nil if absent. It is 0 if no projected attribute changes; a new key costs a delete and a put.
func (ix *index) writeUnits(t *table, old, now *row) int64 {
	before, after := ix.entryOf(t, old), ix.entryOf(t, now)
	switch {
	case before == nil && after == nil:
		return 0
	case before == nil:
		return writeUnits(after.size)
	case after == nil:
		return writeUnits(before.size)
	case !ix.sameKey(before, after):
		return writeUnits(before.size) + writeUnits(after.size)
	case before.item.Equal(after.item):
		return 0
	}
	return writeUnits(max(before.size, after.size))
}
