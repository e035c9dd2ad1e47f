package ddbmem

// conditionFailed is answered when a condition does not hold.
const conditionFailed = "The conditional request failed"

// verb is the effect of a statement on its item.
type verb byte

const (
	verbPut verb = iota
	verbUpdate
	verbDelete
	verbCheck
)

// planWrite checks the key of a write and returns its change, with the stored item as the old one. The new
// item is still missing. operation is the API call that hooks of OnWrite see. It fails with a nil change if
// the key is invalid, and with the change if a put has an invalid index key.
func (t *table) planWrite(st *statement, v verb, operation string) (*change, error) {
	ch := &change{table: t, operation: operation}
	if v != verbPut {
		if err := t.checkKey(st.key); err != nil {
			return nil, err
		}
		ch.key = t.keyOf(st.key)
		ch.old = t.row(ch.key)
		return ch, nil
	}
	if err := t.checkItemKey(st.item); err != nil {
		return nil, err
	}
	ch.key = t.keyOf(st.item)
	ch.old = t.row(ch.key)
	return ch, t.checkIndexed(st.item)
}

// conditionHolds reports whether the stored item satisfies the statement's condition; true without one.
func (ch *change) conditionHolds(st *statement) bool {
	return st.condition == nil || st.condition.Holds(&st.env, ch.oldItem())
}

// computeItem sets ch.new to the item after the write: nil for a delete, the stored item for a condition check.
// It fails if an update is invalid for the item, or if the item exceeds 400 KB. It stores nothing in the table.
func (ch *change) computeItem(st *statement, v verb) error {
	switch v {
	case verbDelete:
		return nil
	case verbCheck:
		ch.new = ch.oldItem()
		return nil
	case verbPut:
		ch.new = st.item
		if ch.new.Size() > maxItemSize {
			return validationError("Item size has exceeded the maximum allowed size")
		}
		return nil
	}
	return ch.computeUpdate(st)
}

// computeUpdate sets ch.new to the item after an UpdateItem, with its key attributes. Without an expression
// that is the stored item, or a new item of the key alone. It fails if the update writes a key attribute, does
// not fit the item, or makes it invalid or larger than 400 KB.
func (ch *change) computeUpdate(st *statement) error {
	t := ch.table
	if st.update == nil {
		ch.new = ch.oldItem()
		if ch.new == nil {
			ch.new = st.key
		}
		return nil
	}
	for _, name := range st.update.TopLevelNames(&st.env) {
		if t.hasAttribute(name) {
			return validationError("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	next, err := st.update.Apply(&st.env, ch.oldItem())
	if err != nil {
		return validationError("%v", err)
	}
	for name, v := range st.key {
		next[name] = v
	}
	if err := t.checkIndexed(next); err != nil {
		return err
	}
	if next.Size() > maxItemSize {
		return validationError("Item size to update has exceeded the maximum allowed size")
	}
	ch.new = next
	return nil
}
