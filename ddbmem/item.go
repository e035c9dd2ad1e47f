package ddbmem

import (
	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// getItem executes GetItem: it appends the projected item to c.out and charges the read, of a missing item too.
// Its answer then lacks Item. It fails if the table is missing, the key is invalid or its partition throttles.
func (c *call) getItem() error {
	st, err := c.readWholeStatement("GetItem")
	if err == nil {
		err = requireMember(st.key != nil, "key")
	}
	if err != nil {
		return err
	}
	c.db.mu.RLock()
	defer c.db.mu.RUnlock()
	t, err := c.db.lookup(st.table)
	if err == nil {
		err = t.checkKey(st.key)
	}
	if err != nil {
		return err
	}
	hash := t.keyOf(st.key).hash
	if isThrottled(c, t, hash, false) {
		return errThrottled()
	}
	item, size := t.readItem(st.key)
	chargeRead(c, t, hash, readHalves(size, st.consistent))
	if item != nil {
		c.out = value.AppendMap(wire.Field(c.out, "Item"), st.projected(item))
	}
	c.appendCapacity(false, false)
	return nil
}

// readItem returns the item with the primary key in key and its size in bytes, nil and 0 if it is absent. The
// commit lock must be held for reading.
func (t *table) readItem(key value.Map) (value.Map, int) {
	r := t.row(t.keyOf(key))
	if r == nil {
		return nil, 0
	}
	return r.item, r.size
}

// projected returns the part of item that the projection expression selects. Without an expression it returns
// item itself, not a copy.
func (st *statement) projected(item value.Map) value.Map {
	if st.projection == nil {
		return item
	}
	return st.projection.Apply(&st.env, item)
}

// writeItem executes PutItem, UpdateItem or DeleteItem, which kind and v name. It checks the condition, commits
// and charges the change, and appends the attributes of ReturnValues. It fails without a write if the partition
// throttles, the item is invalid, or the condition fails, which is charged and counted.
func (c *call) writeItem(kind string, v verb) error {
	st, err := c.readWholeStatement(kind)
	if err != nil {
		return err
	}
	if err := st.checkWrite(v); err != nil {
		return err
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	t, err := c.db.lookup(st.table)
	if err != nil {
		return err
	}
	ch, err := t.planWrite(st, v, kind)
	if err != nil {
		return err
	}
	if isThrottled(c, t, ch.key.hash, true) {
		return errThrottled()
	}
	if !ch.conditionHolds(st) {
		chargeChange(c, ch, 1, (*usage).chargeRefused)
		c.refused++
		failure := newError("ConditionalCheckFailedException", conditionFailed)
		if st.onFailure == "ALL_OLD" {
			failure.item = ch.oldItem()
		}
		return failure
	}
	if err := ch.computeItem(st, v); err != nil {
		return err
	}
	chargeChange(c, ch, 1, (*usage).chargeWrite)
	c.db.commit(c.seq, ch)
	if shown := st.returnedAttributes(ch); len(shown) > 0 {
		c.out = value.AppendMap(wire.Field(c.out, "Attributes"), shown)
	}
	c.appendCapacity(false, false)
	return nil
}

// checkWrite fails if a put lacks its item, another write its key, or ReturnValues does not fit the kind of
// write.
func (st *statement) checkWrite(v verb) error {
	if v == verbPut {
		if err := requireMember(st.item != nil, "item"); err != nil {
			return err
		}
	} else if err := requireMember(st.key != nil, "key"); err != nil {
		return err
	}
	switch st.returnValues {
	case "", "NONE", "ALL_OLD":
		return nil
	}
	if v != verbUpdate {
		return validationError("ReturnValues can only be ALL_OLD or NONE")
	}
	return nil
}

// returnedAttributes returns the attributes that the parameter ReturnValues requests of a write, before or
// after it. It is nil for NONE, and for UPDATED_OLD and UPDATED_NEW without an update expression.
func (st *statement) returnedAttributes(ch *change) value.Map {
	switch st.returnValues {
	case "ALL_OLD":
		return ch.oldItem()
	case "ALL_NEW":
		return ch.new
	case "UPDATED_OLD", "UPDATED_NEW":
		if st.update == nil {
			return nil
		}
		if st.returnValues == "UPDATED_OLD" {
			return st.update.Touched(&st.env, ch.oldItem())
		}
		return st.update.Touched(&st.env, ch.new)
	}
	return nil
}
