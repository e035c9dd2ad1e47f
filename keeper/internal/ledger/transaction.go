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

// write is one write of a transaction. op is nil if several operations share it.
type write struct {
	kind itemKind
	key  store.Key
	op   *Operation
	sum  Counter
}

// transaction is one TransactWriteItems request, of operations of one day.
type transaction struct {
	ops    []*Operation
	items  []write
	draw   func(shards int) int
	shards map[store.Key]int // drawn per counter: partition and prefix
	at     map[store.Key]int // where the item of a key is
	marks  bool              // its first item is the mark of its day
}

const maxTxnItems = 100

// compose packs operations, in order, into one transaction: their own items, and one
// write for each counter that they share. With marks it adds the mark of their day. It returns
// those that do not fit, or that need an item which is already taken.
func compose(ops []*Operation, draw func(shards int) int, marks bool) (t *transaction, left []*Operation) {
	t = &transaction{draw: draw, marks: marks, shards: map[store.Key]int{}, at: map[store.Key]int{}}
	if marks && len(ops) > 0 {
		t.items = append(t.items, ops[0].markOf())
	}
	for i, o := range ops {
		own := o.items()
		switch {
		case len(t.items)+len(own)+t.further(o) > maxTxnItems:
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

// of is a transaction of some of the operations alone, on the same shards.
func (t *transaction) of(ops []*Operation) *transaction {
	part, _ := compose(ops, t.draw, t.marks)
	return part
}

// further is the number of items that the operation needs beside its own, and that the
// transaction does not have yet.
func (t *transaction) further(o *Operation) int {
	count := 0
	for _, d := range o.debits {
		if _, ok := t.shards[d.ref()]; !ok {
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

// items are the writes that belong to the operation alone.
func (o *Operation) items() []write {
	var items []write
	if o.record != nil {
		items = append(items, write{kind: putDedup, key: o.record.Key, op: o})
	}
	if o.adjust != nil {
		items = append(items, write{kind: putAudit, key: o.adjust.key(o.Org), op: o})
		if o.adjust.Event != nil {
			items = append(items, write{kind: putEvent, key: store.KeyOf(o.adjust.Event), op: o})
		}
	}
	return items
}

// addCounters adds to the counters that the operation shares with others.
func (t *transaction) addCounters(o *Operation) {
	for _, d := range o.debits {
		shard, ok := t.shards[d.ref()]
		if !ok {
			shard = t.draw(d.Shards)
			t.shards[d.ref()] = shard
		}
		key := shardKey(d.PK, d.Prefix, shard)
		i, ok := t.at[key]
		if !ok {
			i = len(t.items)
			t.at[key] = i
			t.items = append(t.items, write{kind: addCounter, key: key})
		}
		it := &t.items[i]
		it.sum = it.sum.Add(o.delta(d))
	}
	for _, key := range o.reopens {
		if _, ok := t.at[key]; !ok {
			t.at[key] = len(t.items)
			t.items = append(t.items, write{kind: reopenDay, key: key})
		}
	}
}

// markOf is the item that marks what an operation counts. The transactions of a process on a
// label's day have it until one has landed.
func (o *Operation) markOf() write {
	return write{kind: putMark, key: store.Key{PK: markPartition(o.day), SK: o.debits[0].PK}, op: o}
}

// shardOf is the shard the operation's record went to.
func (t *transaction) shardOf(o *Operation) int { return t.shards[o.debits[0].ref()] }

// landed marks every operation of a committed transaction.
func (t *transaction) landed() {
	for _, o := range t.ops {
		if o.record != nil {
			o.Verdict.Stored = o.record.stored(o.writer, t.shardOf(o))
		}
	}
}
