package ddbmem

import (
	"slices"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// Limits of the batch calls.
const (
	maxBatchGet   = 100
	maxBatchWrite = 25
	maxBatchBytes = 16 << 20
)

// tableKeys is the part of a BatchGetItem about one table.
type tableKeys struct {
	name string
	*statement
}

// batchGetItem executes BatchGetItem: it reads the request and appends the found items and the unprocessed
// keys. It fails unless the batch has 1 to 100 keys and each named table at least one. A fault may leave
// c.unprocessed keys unread.
func (c *call) batchGetItem() error {
	var asked []tableKeys
	c.in.Object(func(member string) {
		switch member {
		case "RequestItems":
			c.in.Object(func(name string) {
				asked = append(asked, tableKeys{name, readStatement(c.in, "KeysAndAttributes")})
			})
		case "ReturnConsumedCapacity":
			c.capacity = readCapacity(c.in)
		default:
			c.in.Fail(unsupportedError(member + " in BatchGetItem"))
		}
	})
	if err := c.in.Err(); err != nil {
		return err
	}
	keys := countKeys(asked)
	for _, a := range asked {
		if err := a.bindExpressions(c.db); err != nil {
			return err
		}
		if len(a.keys) == 0 {
			return validationError("1 validation error detected: Value '[]' at 'requestItems.%s.member.keys' failed to satisfy constraint: Member must have length greater than or equal to 1", a.name)
		}
	}
	switch {
	case keys == 0:
		return validationError("1 validation error detected: Value '{}' at 'requestItems' failed to satisfy constraint: Member must have length greater than or equal to 1")
	case keys > maxBatchGet:
		return validationError("Too many items requested for the BatchGetItem call")
	}
	return c.readBatch(asked, keys-c.unprocessed)
}

// readBatch appends the items of the batch and charges the reads, under the read lock. It reads at most process
// keys and 16 MB; the answer lists the other keys and throttled ones as unprocessed. It fails if a table is
// missing, a key is invalid or repeated, or partitions throttle all keys.
func (c *call) readBatch(asked []tableKeys, process int) error {
	c.db.mu.RLock()
	defer c.db.mu.RUnlock()
	for _, a := range asked {
		if err := c.db.checkBatchKeys(a); err != nil {
			return err
		}
	}
	rest := make([][]value.Map, len(asked))
	room := batchRoom{process, maxBatchBytes}
	c.out = append(wire.Field(c.out, "Responses"), '{')
	for i, a := range asked {
		c.out = append(wire.Field(c.out, a.name), '[')
		rest[i] = c.readKeys(a, &room)
		c.out = append(c.out, ']')
	}
	if isBatchThrottled(countKeys(asked), c) {
		return errThrottled()
	}
	c.out = append(c.out, '}')
	c.out = append(wire.Field(c.out, "UnprocessedKeys"), '{')
	for i, a := range asked {
		if len(rest[i]) > 0 {
			c.out = a.appendUnprocessed(wire.Field(c.out, a.name), rest[i])
		}
	}
	c.out = append(c.out, '}')
	c.appendCapacity(true, false)
	return nil
}

// countKeys returns the number of keys of all tables of a batch.
func countKeys(asked []tableKeys) (keys int) {
	for _, a := range asked {
		keys += len(a.keys)
	}
	return keys
}

// batchRoom is the remaining room of a batch's answer.
type batchRoom struct{ items, bytes int }

// readKeys appends the items of one table in order while room is left, which it reduces in place, and charges
// the reads. It returns the throttled keys, which it counts, and the keys beyond the room.
func (c *call) readKeys(a tableKeys, room *batchRoom) (rest []value.Map) {
	t := c.db.tables[a.name]
	for i, key := range a.keys {
		hash := t.keyOf(key).hash
		if isThrottled(c, t, hash, false) {
			rest = append(rest, key)
			continue
		}
		item, size := t.readItem(key)
		if room.items <= 0 || size > room.bytes {
			room.items = 0
			return append(rest, a.keys[i:]...)
		}
		room.items--
		room.bytes -= size
		chargeRead(c, t, hash, readHalves(size, a.consistent))
		if item != nil {
			c.out = value.AppendMap(wire.Comma(c.out), a.projected(item))
		}
	}
	return rest
}

// checkBatchKeys fails if the table does not exist, or if a key is invalid or occurs twice. The commit lock
// must be held for reading.
func (e *engine) checkBatchKeys(a tableKeys) error {
	t, err := e.lookup(a.name)
	if err != nil {
		return err
	}
	seen := make(map[primary]bool, len(a.keys))
	for _, key := range a.keys {
		if err := t.checkKey(key); err != nil {
			return err
		}
		if seen[t.keyOf(key)] {
			return validationError("Provided list of item keys contains duplicates")
		}
		seen[t.keyOf(key)] = true
	}
	return nil
}

// appendUnprocessed appends to b the UnprocessedKeys entry of one table: the given unread keys and the
// request's consistency, projection and names. A client can send it again as it is.
func (a tableKeys) appendUnprocessed(b []byte, keys []value.Map) []byte {
	b = append(wire.Field(append(b, '{'), "Keys"), '[')
	for _, k := range keys {
		b = value.AppendMap(wire.Comma(b), k)
	}
	b = append(b, ']')
	if a.consistent {
		b = append(wire.Field(b, "ConsistentRead"), "true"...)
	}
	if a.projectionText != nil {
		b = wire.AppendString(wire.Field(b, "ProjectionExpression"), *a.projectionText)
	}
	if len(a.env.Names) > 0 {
		b = append(wire.Field(b, "ExpressionAttributeNames"), '{')
		for k, v := range a.env.Names {
			b = wire.AppendString(wire.Field(b, k), v)
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// batchWrite is one put or delete of a BatchWriteItem.
type batchWrite struct {
	*statement
	verb verb
}

// tableWrites is the part of a BatchWriteItem about one table.
type tableWrites struct {
	name   string
	writes []batchWrite
}

// batchWriteItem executes BatchWriteItem: it reads the puts and deletes, commits them one by one, and appends
// the unprocessed ones. It fails unless the batch has 1 to 25 writes. A fault may leave c.unprocessed writes
// undone.
func (c *call) batchWriteItem() error {
	var asked []tableWrites
	total := 0
	c.in.Object(func(member string) {
		switch member {
		case "RequestItems":
			c.in.Object(func(name string) {
				tw := tableWrites{name: name, writes: readWrites(c.in)}
				total += len(tw.writes)
				asked = append(asked, tw)
			})
		case "ReturnConsumedCapacity":
			c.capacity = readCapacity(c.in)
		case "ReturnItemCollectionMetrics":
			readMetrics(c.in)
		default:
			c.in.Fail(unsupportedError(member + " in BatchWriteItem"))
		}
	})
	if err := c.in.Err(); err != nil {
		return err
	}
	switch {
	case total == 0:
		return validationError("1 validation error detected: Value '{}' at 'requestItems' failed to satisfy constraint: Member must have length greater than or equal to 1")
	case total > maxBatchWrite:
		return validationError("Too many items requested for the BatchWriteItem call")
	}
	return c.writeBatch(asked, total-c.unprocessed)
}

// readWrites reads the puts and deletes for one table. An element must hold exactly one PutRequest or
// DeleteRequest; otherwise r gets the error.
func readWrites(r *wire.Reader) []batchWrite {
	var writes []batchWrite
	r.Array(func() {
		n := len(writes)
		r.Object(func(kind string) {
			switch kind {
			case "PutRequest":
				writes = append(writes, batchWrite{readStatement(r, kind), verbPut})
			case "DeleteRequest":
				writes = append(writes, batchWrite{readStatement(r, kind), verbDelete})
			default:
				r.Fail(unsupportedError(kind))
			}
		})
		if r.Err() == nil && len(writes) != n+1 {
			r.Fail(validationError("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"))
		}
	})
	return writes
}

// writeBatch checks all writes, then commits and charges the first ones, at most process, under the commit
// lock. The answer lists the others and throttled writes as unprocessed. It fails and writes nothing if a write
// is invalid, a key occurs twice, or partitions throttle all writes.
func (c *call) writeBatch(asked []tableWrites, process int) error {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	for _, a := range asked {
		if err := c.db.checkWrites(a); err != nil {
			return err
		}
	}
	all := 0
	c.out = append(wire.Field(c.out, "UnprocessedItems"), '{')
	for _, a := range asked {
		n := min(max(process, 0), len(a.writes))
		process -= n
		var rest []batchWrite
		for _, w := range a.writes[:n] {
			ch, err := c.db.planWrite(a.name, w)
			if err != nil {
				return err
			}
			if isThrottled(c, ch.table, ch.key.hash, true) {
				rest = append(rest, w)
				continue
			}
			chargeChange(c, ch, 1, (*usage).chargeWrite)
			c.db.commit(c.seq, ch)
		}
		if rest = append(rest, a.writes[n:]...); len(rest) > 0 {
			c.out = append(wire.Field(c.out, a.name), '[')
			for _, w := range rest {
				c.out = w.append(wire.Comma(c.out))
			}
			c.out = append(c.out, ']')
		}
		all += len(a.writes)
	}
	if isBatchThrottled(all, c) {
		return errThrottled()
	}
	c.out = append(c.out, '}')
	c.appendCapacity(true, false)
	return nil
}

// planWrite returns the change of one batch write, with its new item, and commits nothing. It fails if the
// table, a key or the item is invalid. The commit lock must be held.
func (e *engine) planWrite(name string, w batchWrite) (*change, error) {
	if err := w.checkWrite(w.verb); err != nil {
		return nil, err
	}
	t, err := e.lookup(name)
	if err != nil {
		return nil, err
	}
	ch, err := t.planWrite(w.statement, w.verb, "BatchWriteItem")
	if err != nil {
		return nil, err
	}
	return ch, ch.computeItem(w.statement, w.verb)
}

// checkWrites fails if a write of the table is invalid or two have the same key. It changes nothing. The
// commit lock must be held.
func (e *engine) checkWrites(a tableWrites) error {
	var seen []primary
	for _, w := range a.writes {
		ch, err := e.planWrite(a.name, w)
		if err != nil {
			return err
		}
		if slices.Contains(seen, ch.key) {
			return validationError("Provided list of item keys contains duplicates")
		}
		seen = append(seen, ch.key)
	}
	return nil
}

// append appends the write to b as an element of UnprocessedItems: {"PutRequest":{"Item":…}} or
// {"DeleteRequest":{"Key":…}}.
func (w batchWrite) append(b []byte) []byte {
	kind, member, m := "PutRequest", "Item", w.item
	if w.verb == verbDelete {
		kind, member, m = "DeleteRequest", "Key", w.key
	}
	b = append(wire.Field(append(b, '{'), kind), '{')
	return append(value.AppendMap(wire.Field(b, member), m), '}', '}')
}
