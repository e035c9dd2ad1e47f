package ddbmem

import (
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// Limits of items and keys in bytes.
const (
	maxItemSize = 400 << 10
	maxHashSize = 2048
	maxSortSize = 1024
)

// keySchema names the key attributes; sort is "" without a sort key.
type keySchema struct{ hash, sort string }

// names returns the key attributes: the hash attribute and then the sort attribute, if there is one.
func (k keySchema) names() []string {
	if k.sort == "" {
		return []string{k.hash}
	}
	return []string{k.hash, k.sort}
}

// hasAttribute reports whether the attribute is part of the key.
func (k keySchema) hasAttribute(name string) bool {
	return name == k.hash || k.sort != "" && name == k.sort
}

type table struct {
	keySchema
	name       string
	id         int64
	created    time.Time
	kinds      map[string]string // AttributeDefinitions
	billing    string
	throughput throughput
	class      string
	protected  bool
	recovery   time.Time // since when point-in-time recovery is on, zero while it is off
	ttl        string    // attribute of the time to live, "" when disabled
	soonest    int64     // no item expires before this second
	indexes    []*index
	stream     *stream
	store
}

type throughput struct{ read, write int64 }

// index returns the index with a name, nil if it does not exist.
func (t *table) index(name string) *index {
	for _, ix := range t.indexes {
		if ix.name == name {
			return ix
		}
	}
	return nil
}

// keyOf returns the primary key in m, which must have the key attributes.
func (t *table) keyOf(m value.Map) primary {
	k := primary{hash: m[t.hash]}
	if t.sort != "" {
		k.sort = m[t.sort]
	}
	return k
}

// row returns the row with a primary key, nil if absent. The commit lock must be held for reading.
func (t *table) row(k primary) *row { return t.get(k.hash, position{k.sort, k}) }

// checkKey fails unless m has exactly the key attributes of t and no others, with their types, not empty and
// within the size limits.
func (t *table) checkKey(m value.Map) error {
	names := t.names()
	if len(m) != len(names) {
		return validationError("The provided key element does not match the schema")
	}
	for _, name := range names {
		v, ok := m[name]
		if !ok || v.Type() != t.kinds[name] {
			return validationError("The provided key element does not match the schema")
		}
	}
	return t.checkKeySizes(m)
}

// checkKeySizes fails if a key attribute of m is empty or longer than DynamoDB's limit.
func (t *table) checkKeySizes(m value.Map) error {
	for _, name := range t.names() {
		size := value.Size(m[name])
		switch {
		case isEmptyKey(m[name]):
			return validationError("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s", textKind(m[name]), name)
		case name == t.hash && size > maxHashSize:
			return validationError("One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes")
		case name == t.sort && size > maxSortSize:
			return validationError("One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
		}
	}
	return nil
}

// isEmptyKey reports whether a key value is an empty string or binary, which DynamoDB refuses.
func isEmptyKey(v value.Value) bool { return v.Type() != "N" && value.Size(v) == 0 }

// textKind names the type of a key value in an error: "binary" or "string".
func textKind(v value.Value) string {
	if v.Type() == "B" {
		return "binary"
	}
	return "string"
}

// checkItemKey fails unless item has the key attributes of t, with their types, not empty and within the size
// limits. Other attributes are allowed.
func (t *table) checkItemKey(item value.Map) error {
	for _, name := range t.names() {
		v, ok := item[name]
		if !ok {
			return validationError("One or more parameter values were invalid: Missing the key %s in the item", name)
		}
		if v.Type() != t.kinds[name] {
			return validationError("One or more parameter values were invalid: Type mismatch for key %s expected: %s actual: %s", name, t.kinds[name], v.Type())
		}
	}
	return t.checkKeySizes(item)
}

// checkIndexed fails if an index key attribute of item has the wrong type or size. An item without the
// attribute is fine: the index leaves it out.
func (t *table) checkIndexed(item value.Map) error {
	for _, ix := range t.indexes {
		if err := t.checkIndexKeys(ix, item); err != nil {
			return err
		}
	}
	return nil
}

// checkIndexKeys fails if a key attribute of ix in item has the wrong type, is empty or too long. It accepts a
// missing attribute, and does not check those of the table's own key.
func (t *table) checkIndexKeys(ix *index, item value.Map) error {
	for _, name := range ix.names() {
		v, ok := item[name]
		if !ok || t.hasAttribute(name) {
			continue
		}
		if v.Type() != t.kinds[name] {
			return validationError("One or more parameter values were invalid: Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s", name, t.kinds[name], v.Type(), ix.name)
		}
		limit := maxHashSize
		if name == ix.sort {
			limit = maxSortSize
		}
		switch size := value.Size(v); {
		case isEmptyKey(v):
			return validationError("One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty %s value. IndexName: %s, IndexKey: %s", textKind(v), ix.name, name)
		case size > limit:
			return validationError("One or more parameter values were invalid: Size of the key %s of index %s has exceeded the maximum size limit of %d bytes", name, ix.name, limit)
		}
	}
	return nil
}

// change is one write of an item, worked out but not yet made.
type change struct {
	table     *table
	key       primary
	old       *row
	new       value.Map // nil: deleted
	operation string
	expired   bool
}

// apply makes the change in the table and all its indexes and returns the new row, nil after a delete. It
// lowers t.soonest, the second before which nothing expires, if the row expires earlier. The commit lock must
// be held.
func (ch *change) apply() *row {
	t := ch.table
	var now *row
	at := position{ch.key.sort, ch.key}
	if ch.new == nil {
		t.delete(ch.key.hash, at)
	} else {
		now = newRow(at, ch.new)
		t.put(ch.key.hash, now)
		if at, ok := now.expires(t); ok {
			t.soonest = min(t.soonest, at)
		}
	}
	for _, ix := range t.indexes {
		ix.updateEntry(t, ch.old, now)
	}
	return now
}

// sizeInBytes returns the size of all items in bytes, by adding up every row.
func (s *store) sizeInBytes() int64 {
	total := 0
	for _, p := range s.parts {
		for _, r := range p.rows {
			total += r.size
		}
	}
	return int64(total)
}

// oldItem returns the item before the change, nil if it was absent.
func (ch *change) oldItem() value.Map {
	if ch.old == nil {
		return nil
	}
	return ch.old.item
}

// expires returns the Unix second after which the item expires, from the table's time-to-live attribute. It
// returns false without time to live, or if the attribute is missing, not a number or beyond int64.
func (r *row) expires(t *table) (at int64, ok bool) {
	if t.ttl == "" {
		return 0, false
	}
	n, ok := r.item[t.ttl].(value.Number)
	if !ok {
		return 0, false
	}
	return n.Int64()
}
