package ddbmem

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// Limits of transactions.
const (
	maxTransactItems = 100
	maxTransactBytes = 4 << 20
	tokenLife        = 10 * time.Minute
)

// transactItem is one item of a transaction.
type transactItem struct {
	*statement
	kind string
	verb verb
}

var transactVerbs = map[string]verb{"Put": verbPut, "Update": verbUpdate, "Delete": verbDelete, "ConditionCheck": verbCheck}

// transactWriteItems executes TransactWriteItems: it reads and checks its items, and commits all or none under
// the commit lock. It fails unless there are 1 to 100 items and the token has at most 36 bytes.
func (c *call) transactWriteItems() error {
	var items []transactItem
	token := ""
	c.in.Object(func(member string) {
		switch member {
		case "TransactItems":
			c.in.Array(func() { items = append(items, readTransactItem(c.in)) })
		case "ClientRequestToken":
			token = c.in.String()
		case "ReturnConsumedCapacity":
			c.capacity = readCapacity(c.in)
		case "ReturnItemCollectionMetrics":
			readMetrics(c.in)
		default:
			c.in.Fail(unsupportedError(member + " in TransactWriteItems"))
		}
	})
	if err := c.in.Err(); err != nil {
		return err
	}
	if err := checkTransactLength(len(items)); err != nil {
		return err
	}
	if len(token) > 36 {
		return validationError("1 validation error detected: Value '%s' at 'clientRequestToken' failed to satisfy constraint: Member must have length less than or equal to 36", token)
	}
	for _, it := range items {
		if err := it.check(c.db); err != nil {
			return err
		}
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	return c.transact(items, token)
}

// readTransactItem reads one item of a transaction. r gets an error unless it holds exactly one Put, Update,
// Delete or ConditionCheck.
func readTransactItem(r *wire.Reader) transactItem {
	var it transactItem
	members := 0
	r.Object(func(kind string) {
		v, ok := transactVerbs[kind]
		if !ok {
			r.Fail(unsupportedError(kind + " in TransactItems"))
			return
		}
		members++
		it = transactItem{readStatement(r, kind), kind, v}
	})
	if r.Err() == nil && members != 1 {
		r.Fail(validationError("TransactItems can only contain one of Check, Put, Update or Delete"))
	}
	return it
}

// checkTransactLength fails unless n, the number of items of a transaction, is from 1 to 100.
func checkTransactLength(n int) error {
	switch {
	case n == 0:
		return validationError("1 validation error detected: Value '[]' at 'transactItems' failed to satisfy constraint: Member must have length greater than or equal to 1")
	case n > maxTransactItems:
		return validationError("1 validation error detected: Value at 'transactItems' failed to satisfy constraint: Member must have length less than or equal to 100")
	}
	return nil
}

// check fails if the item lacks its key, its item or the expression that its kind requires. It also parses
// the expressions.
func (it transactItem) check(db *engine) error {
	if err := it.checkWrite(it.verb); err != nil {
		return err
	}
	switch {
	case it.verb == verbUpdate && it.updateText == nil:
		return requireMember(false, "transactItems.member.update.updateExpression")
	case it.verb == verbCheck && it.conditionText == nil:
		return requireMember(false, "transactItems.member.conditionCheck.conditionExpression")
	}
	return it.bindExpressions(db)
}

// transact commits all items or none, and charges them; the commit lock must be held. If token repeats that of
// an equal transaction of the last ten minutes, it writes nothing and succeeds. It fails if a condition fails,
// an item is invalid or repeated, a partition throttles, or the items exceed 4 MB.
func (c *call) transact(items []transactItem, token string) error {
	tables, err := c.db.transactTables(items)
	if err != nil {
		return err
	}
	if token != "" {
		if done, err := c.answerRepeated(items, tables, token); done || err != nil {
			return err
		}
	}
	changes, reasons := planTransact(items, tables, c.operation)
	if err := checkTransactKeys(changes); err != nil {
		return err
	}
	if throttleTransact(c, changes, reasons) {
		return &Error{Code: "TransactionCanceledException", Reasons: reasons}
	}
	cancelled, size := false, 0
	for i, it := range items {
		if reasons[i].Code == "" {
			reasons[i] = c.computeTransactItem(changes[i], it)
			size += changes[i].new.Size()
		}
		cancelled = cancelled || reasons[i].Code != ""
	}
	if cancelled {
		return c.cancelTransact(changes, reasons)
	}
	if size > maxTransactBytes {
		return validationError("Transaction request size has exceeded the maximum allowed size of 4 MB")
	}
	c.commitTransact(items, changes)
	if token != "" {
		c.db.rememberToken(token, fingerprint(items), c.at)
	}
	c.appendCapacity(true, true)
	return nil
}

// transactTables returns the table of each item, in order, and fails if one does not exist.
func (e *engine) transactTables(items []transactItem) ([]*table, error) {
	tables := make([]*table, len(items))
	for i, it := range items {
		t, err := e.lookup(it.table)
		if err != nil {
			return nil, err
		}
		tables[i] = t
	}
	return tables, nil
}

// planTransact returns the change of every item, not yet with its new attributes, and its reason. An item with
// an invalid key has the reason ValidationError, and its change may be nil. All other reasons are zero.
func planTransact(items []transactItem, tables []*table, operation string) ([]*change, []Reason) {
	changes := make([]*change, len(items))
	reasons := make([]Reason, len(items))
	for i, it := range items {
		ch, err := tables[i].planWrite(it.statement, it.verb, operation)
		if err != nil {
			reasons[i] = Reason{Code: "ValidationError", Message: asError(err).Message}
		}
		changes[i] = ch
	}
	return changes, reasons
}

// checkTransactKeys fails if two changes are of the same item. nil changes are skipped.
func checkTransactKeys(changes []*change) error {
	type place struct {
		t *table
		k primary
	}
	seen := make(map[place]bool, len(changes))
	for _, ch := range changes {
		if ch == nil {
			continue
		}
		p := place{ch.table, ch.key}
		if seen[p] {
			return validationError("Transaction request cannot include multiple operations on one item")
		}
		seen[p] = true
	}
	return nil
}

// computeTransactItem checks an item's condition and computes its new attributes in ch.new; it writes nothing
// yet. It returns the reason of a refusal, the zero Reason for success. A failed condition counts in c.refused.
func (c *call) computeTransactItem(ch *change, it transactItem) Reason {
	if !ch.conditionHolds(it.statement) {
		c.refused++
		r := Reason{Code: "ConditionalCheckFailed", Message: conditionFailed}
		if it.onFailure == "ALL_OLD" {
			r.item = ch.oldItem()
		}
		return r
	}
	if err := ch.computeItem(it.statement, it.verb); err != nil {
		return Reason{Code: "ValidationError", Message: asError(err).Message}
	}
	return Reason{}
}

// cancelTransact charges every change, except nil ones, with twice the write cost of its stored item, as
// DynamoDB does. It returns a TransactionCanceledException with the reasons.
func (c *call) cancelTransact(changes []*change, reasons []Reason) error {
	for _, ch := range changes {
		if ch != nil {
			chargeChange(c, ch, 2, (*usage).chargeRefused)
		}
	}
	return &Error{Code: "TransactionCanceledException", Reasons: reasons}
}

// commitTransact charges all changes at twice the write cost and commits them in order. Condition checks are
// charged by the stored item and write nothing. The commit lock must be held.
func (c *call) commitTransact(items []transactItem, changes []*change) {
	writes := make([]*change, 0, len(changes))
	for i, ch := range changes {
		if items[i].verb == verbCheck {
			chargeChange(c, ch, 2, (*usage).chargeRefused)
			continue
		}
		chargeChange(c, ch, 2, (*usage).chargeWrite)
		writes = append(writes, ch)
	}
	c.db.commit(c.seq, writes...)
}

// answerRepeated returns true if a transaction with this token was committed in the last ten minutes. It then
// charges two reads of each item, completes the answer and writes nothing. It fails if that transaction
// differed from items.
func (c *call) answerRepeated(items []transactItem, tables []*table, token string) (bool, error) {
	before := c.db.tokens[token]
	if before == nil || c.at.Sub(before.at) >= tokenLife {
		return false, nil
	}
	if before.fingerprint != fingerprint(items) {
		return false, newError("IdempotentParameterMismatchException", "The request uses the same client token as a previous, but non-identical request")
	}
	for i, it := range items {
		key := it.key
		if it.verb == verbPut {
			key = it.item
		}
		_, size := tables[i].readItem(key)
		c.use.tableEntry(tables[i]).read += 2 * readHalves(size, true)
	}
	c.appendCapacity(true, true)
	return true, nil
}

// rememberToken stores a client request token with its transaction's fingerprint and the time at, and removes
// tokens that are ten minutes old or older. The commit lock must be held.
func (e *engine) rememberToken(token string, print [sha256.Size]byte, at time.Time) {
	maps.DeleteFunc(e.tokens, func(_ string, t *transaction) bool { return at.Sub(t.at) >= tokenLife })
	e.tokens[token] = &transaction{print, at}
}

// fingerprint returns the SHA-256 of a transaction's content. The order of members in its JSON does not matter;
// the order of items does.
func fingerprint(items []transactItem) [sha256.Size]byte {
	h := sha256.New()
	for _, it := range items {
		writeText(h, it.kind)
		writeText(h, it.table)
		writeText(h, it.onFailure)
		for _, text := range []*string{it.conditionText, it.updateText} {
			if text == nil {
				h.Write([]byte{0})
				continue
			}
			writeText(h, *text)
		}
		for _, name := range slices.Sorted(maps.Keys(it.env.Names)) {
			writeText(h, name)
			writeText(h, it.env.Names[name])
		}
		for _, m := range []value.Map{it.key, it.item, it.env.Values} {
			h.Write(appendCanonical(nil, m))
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// writeText adds a text to the hash, after a byte 1 and the text's length. So different lists of texts never
// add the same bytes.
func writeText(h hash.Hash, s string) {
	h.Write(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(s))))
	h.Write([]byte(s))
}

// appendCanonical appends v to b in its JSON form with the members of maps sorted, so that equal values have
// equal bytes.
func appendCanonical(b []byte, v value.Value) []byte {
	switch v := v.(type) {
	case value.Map:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = appendCanonical(wire.Field(b, name), v[name])
		}
		return append(b, '}')
	case value.List:
		b = append(b, '[')
		for _, e := range v {
			b = appendCanonical(wire.Comma(b), e)
		}
		return append(b, ']')
	}
	return value.Append(b, v)
}

// transactGetItems executes TransactGetItems: it reads 1 to 100 keys and appends their items in order, all
// under one read lock. It fails for another number or an invalid expression.
func (c *call) transactGetItems() error {
	var items []*statement
	c.in.Object(func(member string) {
		switch member {
		case "TransactItems":
			c.in.Array(func() {
				c.in.Object(func(kind string) {
					if kind != "Get" {
						c.in.Fail(unsupportedError(kind + " in TransactGetItems"))
						return
					}
					items = append(items, readStatement(c.in, "Get"))
				})
			})
		case "ReturnConsumedCapacity":
			c.capacity = readCapacity(c.in)
		default:
			c.in.Fail(unsupportedError(member + " in TransactGetItems"))
		}
	})
	if err := c.in.Err(); err != nil {
		return err
	}
	if err := checkTransactLength(len(items)); err != nil {
		return err
	}
	for _, st := range items {
		if err := requireMember(st.key != nil, "transactItems.member.get.key"); err != nil {
			return err
		}
		if err := st.bindExpressions(c.db); err != nil {
			return err
		}
	}
	c.db.mu.RLock()
	defer c.db.mu.RUnlock()
	return c.readTransact(items)
}

// readTransact appends the items in order, {} for a missing one, and charges each read twice. It fails with
// TransactionCanceledException if a key is invalid; c.out is then unchanged. The commit lock must be held for
// reading.
func (c *call) readTransact(items []*statement) error {
	reasons := make([]Reason, len(items))
	cancelled := false
	out := append(wire.Field(c.out, "Responses"), '[')
	for i, st := range items {
		t, err := c.db.lookup(st.table)
		if err != nil {
			return err
		}
		if err := t.checkKey(st.key); err != nil {
			reasons[i] = Reason{Code: "ValidationError", Message: asError(err).Message}
			cancelled = true
			continue
		}
		item, size := t.readItem(st.key)
		c.use.tableEntry(t).read += 2 * readHalves(size, true)
		out = append(wire.Comma(out), '{')
		if item != nil {
			out = value.AppendMap(wire.Field(out, "Item"), st.projected(item))
		}
		out = append(out, '}')
	}
	if cancelled {
		return &Error{Code: "TransactionCanceledException", Reasons: reasons}
	}
	c.out = append(out, ']')
	c.appendCapacity(true, true)
	return nil
}
