package ledger

import (
	"slices"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// itemKind is the kind of one write in a transaction.
type itemKind int

const (
	putDedup   itemKind = iota // if absent
	putAudit                   // if absent
	putEvent                   // always, into the control table
	addCounter                 // always
	reopenDay                  // always
	putMark                    // always, see Mark
)

// write is one item of a transaction. op is nil if several operations share it.
type write struct {
	kind itemKind
	key  store.Key
	op   *Operation
	sum  Counter
}

// transaction is one TransactWriteItems request for operations of one day.
type transaction struct {
	ops    []*Operation
	items  []write
	draw   func(shards int) int
	shards map[store.Key]int // chosen shard by counter (partition and prefix)
	at     map[store.Key]int // index of the item by key
	marks  bool              // its first item is the mark of its day
}

const maxTxnItems = 100

// composeTransaction packs ops, in order, into one transaction: their own items, one write per counter in
// draw's shard, and with marks the day's mark. It sends nothing. Operations beyond maxTxnItems, or with another
// operation's item, are left.
func composeTransaction(ops []*Operation, draw func(shards int) int, marks bool) (t *transaction, left []*Operation) {
	t = &transaction{draw: draw, marks: marks, shards: map[store.Key]int{}, at: map[store.Key]int{}}
	if marks && len(ops) > 0 {
		t.items = append(t.items, ops[0].markWrite())
	}
	for i, o := range ops {
		own := o.ownItems()
		switch {
		case len(t.items)+len(own)+t.countMissingItems(o) > maxTxnItems:
			return t, append(left, ops[i:]...)
		case slices.ContainsFunc(own, func(it write) bool { _, taken := t.at[it.key]; return taken }):
			left = append(left, o)
		default:
			t.ops = append(t.ops, o)
			for _, it := range own {
				t.at[it.key] = len(t.items)
				t.items = append(t.items, it)
			}
			t.addCounters(o)
		}
	}
	return t, left
}

// composeSubset returns a new transaction of ops, a part of t's operations, with t's choice of shards and, if t
// has it, the day's mark. It leaves t unchanged.
func (t *transaction) composeSubset(ops []*Operation) *transaction {
	part, _ := composeTransaction(ops, t.draw, t.marks)
	return part
}

// countMissingItems returns how many writes o would add to t for its counters and reopened days, because t does
// not have them yet. It changes nothing.
func (t *transaction) countMissingItems(o *Operation) int {
	count := 0
	for _, d := range o.debits {
		if _, ok := t.shards[d.counterKey()]; !ok {
			count++
		}
	}
	for _, key := range o.reopens {
		if _, ok := t.at[key]; !ok {
			count++
		}
	}
	return count
}

// ownItems returns the writes of this operation alone: its dedup item, or its adjustment's item and, if set,
// the audit event. It changes nothing.
func (o *Operation) ownItems() []write {
	var items []write
	if o.record != nil {
		items = append(items, write{kind: putDedup, key: o.record.Key, op: o})
	}
	if o.adjust != nil {
		items = append(items, write{kind: putAudit, key: o.adjust.itemKey(o.Org), op: o})
		if o.adjust.Event != nil {
			items = append(items, write{kind: putEvent, key: store.KeyOf(o.adjust.Event), op: o})
		}
	}
	return items
}

// addCounters adds o's amounts to t's counter writes, one per counter, and adds the writes that reopen o's
// closed days. It chooses a shard for each counter that is new in t.
func (t *transaction) addCounters(o *Operation) {
	for _, d := range o.debits {
		shard, ok := t.shards[d.counterKey()]
		if !ok {
			shard = t.draw(d.Shards)
			t.shards[d.counterKey()] = shard
		}
		key := shardKey(d.PK, d.Prefix, shard)
		i, ok := t.at[key]
		if !ok {
			i = len(t.items)
			t.at[key] = i
			t.items = append(t.items, write{kind: addCounter, key: key})
		}
		it := &t.items[i]
		it.sum = it.sum.Add(o.amountsFor(d))
	}
	for _, key := range o.reopens {
		if _, ok := t.at[key]; !ok {
			t.at[key] = len(t.items)
			t.items = append(t.items, write{kind: reopenDay, key: key})
		}
	}
}

// markWrite returns the write that stores the mark: this scope has spend under the label on the day. Sweeps
// find the spend by it. It changes nothing.
func (o *Operation) markWrite() write {
	return write{kind: putMark, key: store.Key{PK: markPartition(o.day), SK: o.debits[0].PK}, op: o}
}

// shardOf returns the number of the shard that t chose for the counter of o's label and day.
func (t *transaction) shardOf(o *Operation) int { return t.shards[o.debits[0].counterKey()] }

// setStored sets Verdict.Stored of each record's operation in t to the content of its new dedup item. It leaves
// adjustments alone and wakes no caller.
func (t *transaction) setStored() {
	for _, o := range t.ops {
		if o.record != nil {
			o.Verdict.Stored = o.record.storedCopy(o.writer, t.shardOf(o))
		}
	}
}
