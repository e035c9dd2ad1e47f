package budget

import (
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// opKind is what a caller asks of the counters.
type opKind int

const (
	opSubmit  opKind = iota // count a record
	opReserve               // hold money before a call
	opSettle                // count a record and give its hold back, together
	opRelease               // give a hold back
	opAdjust                // an audited credit or charge
)

// record is a usage record ready to be counted.
type record struct {
	org, app, request string
	key               store.Key // of its dedup item
	hash              string
	label, scope, day string
	cost              money.Picos
	tokens            Tokens
	priceVersion      string
	expires           int64 // unix seconds
	atSec             int64 // of the call
}

// holdRef is a hold as stored.
type holdRef struct {
	id       string
	keys     []store.Key // where it may be: one, or two when moving it was not answered
	scope    string
	label    string
	day      string
	estimate money.Picos
	debits   []debit
	expireMs int64
	ttl      int64
	lane     string
}

// op is one caller's operation, from the queue to its outcome.
type op struct {
	kind   opKind
	writer string // own id, recognised in an item that a lost answer hides
	record *record
	hold   *holdRef
	debits []debit
	adjust *adjustment
	reopen []store.Key // closed totals this write makes open again
	tried  int         // hold keys found gone

	followers []*op
	full      map[store.Key]money.Picos // counters without room for it, with what they held
	live      []*holdRef                // of its scope, when it was refused
	denied    bool                      // refused for lack of room once, expired holds released
	verdict   verdict

	org       string
	lane      string
	board     string    // scope
	since     time.Time // of the first conflict
	conflicts int
	unkept    bool  // counted without an item of its own
	doubt     bool  // sent and not answered, once
	bar       bool  // a release that leaves no hold behind that is still to come
	state     int32 // see opWaiting
	done      chan struct{}
}

// verdict is how an operation ended.
type verdict struct {
	err       error
	duplicate bool
	conflict  bool
	noRoom    bool
	stored    storedRecord // of an accepted or duplicate record
	adjusted  *adjustment  // of a duplicate adjustment
}

// storedRecord is what a dedup item says.
type storedRecord struct {
	hash, writer string
	cost         money.Picos
	label, scope string
	day          string
	shard        int
	priceVersion string
}

// holdGone says that no key the hold may have is left.
func (o *op) holdGone() bool { return o.hold == nil || o.tried >= len(o.hold.keys) }

// holdsInVain says that the settlement's record was counted before, from
// elsewhere, and that its hold may still be there. Under a conflict the hold
// stays: its own call is not counted yet.
func (o *op) holdsInVain() bool {
	return o.kind == opSettle && o.verdict.duplicate && !o.verdict.conflict && !o.holdGone()
}

// releaseOnly leaves of a settlement what gives its hold back; the verdict on
// its record stands.
func (o *op) releaseOnly() {
	o.kind, o.record, o.debits, o.reopen = opRelease, nil, o.hold.debits, nil
}

// fullAt notes the counter that has no room for the operation.
func (o *op) fullAt(key store.Key, used money.Picos) {
	if o.full == nil {
		o.full = map[store.Key]money.Picos{}
	}
	for _, d := range o.debits {
		if d.pk == key.PK && strings.HasPrefix(key.SK, d.prefix) {
			o.full[d.ref()] = used
		}
	}
}

// delta is what the operation adds to one of its counters. The label's day
// counts everything; the others money alone.
func (o *op) delta(d debit) counterRow {
	row := counterRow{n: 1, hard: d.hard}
	switch o.kind {
	case opReserve:
		row.used = o.hold.estimate
	case opRelease:
		row.used = o.hold.estimate.Neg()
	case opAdjust:
		if change := o.adjust.change; change.IsNegative() {
			row.credit = change.Neg()
		} else {
			row.cost = change
		}
		row.used = o.adjust.change
	case opSubmit, opSettle:
		row.cost, row.used, row.requests = o.record.cost, o.record.cost, 1
		if !d.bare {
			row.tokens = o.record.tokens
		}
		if o.kind == opSettle && !o.holdGone() {
			row.used = row.used.Sub(o.hold.estimate)
		}
	}
	if !d.hard {
		row.used = money.Picos{}
	}
	return row
}

// itemKind is one write of a transaction.
type itemKind int

const (
	putDedup   itemKind = iota // if absent
	putHold                    // if absent
	deleteHold                 // if present
	barHold                    // if absent: a hold of nothing
	putAudit                   // if absent
	addCounter                 // if used stays within the bound, when there is one
	reopenDay                  // always
)

// txnItem is one write; op is nil where several share it.
type txnItem struct {
	kind   itemKind
	key    store.Key
	op     *op
	sum    counterRow
	bound  money.Picos
	capped bool
}

// txn is one TransactWriteItems.
type txn struct {
	ops    []*op
	items  []txnItem
	shards map[store.Key]int // drawn per counter: partition and prefix
}

const maxTxnItems = 100

// compose packs operations, in order, into one transaction: their own items
// and one write for each counter they share. What does not fit, or needs an
// item that is already taken, is left over.
func compose(ops []*op, draw func(shards int) int) (t *txn, left []*op) {
	t = &txn{shards: map[store.Key]int{}}
	at := map[store.Key]int{}
	for i, o := range ops {
		own := o.items()
		count := len(own)
		for _, d := range o.debits {
			if _, ok := t.shards[store.Key{PK: d.pk, SK: d.prefix}]; !ok {
				count++
			}
		}
		for _, key := range o.reopen {
			if _, ok := at[key]; !ok {
				count++
			}
		}
		if len(t.items)+count > maxTxnItems {
			return t, append(left, ops[i:]...)
		}
		if slices.ContainsFunc(own, func(it txnItem) bool { _, taken := at[it.key]; return taken }) {
			left = append(left, o)
			continue
		}
		t.ops = append(t.ops, o)
		for _, it := range own {
			at[it.key] = len(t.items)
			t.items = append(t.items, it)
		}
		t.addCounters(o, at, draw)
	}
	return t, left
}

// items are the writes that belong to the operation alone.
func (o *op) items() []txnItem {
	var items []txnItem
	if o.record != nil && !o.unkept {
		items = append(items, txnItem{kind: putDedup, key: o.record.key, op: o})
	}
	switch o.kind {
	case opReserve:
		items = append(items, txnItem{kind: putHold, key: o.hold.keys[0], op: o})
	case opSettle, opRelease:
		if !o.holdGone() {
			items = append(items, txnItem{kind: deleteHold, key: o.hold.keys[o.tried], op: o})
		} else if o.bar {
			items = append(items, txnItem{kind: barHold, key: o.hold.keys[0], op: o})
		}
	case opAdjust:
		items = append(items, txnItem{kind: putAudit, key: o.adjust.key(o.org), op: o})
	}
	return items
}

func (t *txn) addCounters(o *op, at map[store.Key]int, draw func(int) int) {
	for _, d := range o.debits {
		ref := store.Key{PK: d.pk, SK: d.prefix}
		shard, ok := t.shards[ref]
		if !ok {
			shard = draw(d.shards)
			t.shards[ref] = shard
		}
		key := shardKey(d.pk, d.prefix, shard)
		i, ok := at[key]
		if !ok {
			i = len(t.items)
			at[key] = i
			t.items = append(t.items, txnItem{kind: addCounter, key: key})
		}
		it := &t.items[i]
		it.sum = it.sum.add(o.delta(d))
		if o.kind == opReserve && d.capped && (!it.capped || d.bound.Cmp(it.bound) < 0) {
			it.bound, it.capped = d.bound, true
		}
	}
	for _, key := range o.reopen {
		if _, ok := at[key]; !ok {
			at[key] = len(t.items)
			t.items = append(t.items, txnItem{kind: reopenDay, key: key})
		}
	}
}

// room is the most that used may be for the write to leave it within the bound.
func (it txnItem) room() money.Picos { return it.bound.Sub(it.sum.used) }

// shardOf is the shard the operation's record went to.
func (t *txn) shardOf(o *op) int {
	if len(o.debits) == 0 {
		return 0
	}
	return t.shards[store.Key{PK: o.debits[0].pk, SK: o.debits[0].prefix}]
}

// refusal is a condition of a transaction that did not hold, with what the
// item holds instead.
type refusal struct {
	item     int
	stored   storedRecord // of a dedup item
	counter  counterRow   // of a counter
	adjusted *adjustment
	hold     *holdRef // in the place of one
}

// landed marks every operation of a committed transaction.
func (t *txn) landed() {
	for _, o := range t.ops {
		if o.record != nil {
			o.verdict.stored = o.record.stored(o.writer, t.shardOf(o))
		}
	}
}

func (r *record) stored(writer string, shard int) storedRecord {
	return storedRecord{
		hash: r.hash, writer: writer, cost: r.cost, label: r.label, scope: r.scope,
		day: r.day, shard: shard, priceVersion: r.priceVersion,
	}
}

// resolve decides about the operations of a refused transaction: those that
// are finished carry their verdict, the rest must be tried again in a new
// transaction; the deferred after them, because they fit beside what is stored
// but not beside the rest. At least one operation is finished, changed or
// deferred by every refusal, so trying again ends.
func (t *txn) resolve(refused []refusal) (finished, again, deferred []*op) {
	over := map[*op]bool{}
	used := map[int]money.Picos{} // of the counters that refused
	for _, r := range refused {
		it := t.items[r.item]
		switch o := it.op; it.kind {
		case putDedup:
			o.verdict.stored = r.stored
			o.verdict.duplicate = r.stored.writer != o.writer
			o.verdict.conflict = o.verdict.duplicate && r.stored.hash != o.record.hash
			if over[o] = !o.holdsInVain(); !over[o] {
				o.releaseOnly()
			}
		case putHold:
			over[o] = true // under an id of our own: an earlier try landed
		case putAudit:
			over[o] = true
			o.verdict.adjusted = r.adjusted
			o.verdict.duplicate = r.adjusted.writer != o.writer
			o.verdict.conflict = o.verdict.duplicate && !o.adjust.repeats(r.adjusted)
		case deleteHold:
			if o.tried++; o.kind == opRelease && o.holdGone() {
				over[o], o.debits = !o.bar, nil
			}
		case barHold: // an earlier try landed, or the hold has come
			if over[o] = r.hold.estimate.IsZero(); !over[o] {
				o.tried, o.debits = 0, o.hold.debits
			}
		case addCounter:
			used[r.item] = r.counter.used
		}
	}
	wait := t.deny(used, over)
	for _, o := range t.ops {
		switch {
		case over[o]:
			finished = append(finished, o)
		case wait[o]:
			deferred = append(deferred, o)
		default:
			again = append(again, o)
		}
	}
	return finished, again, deferred
}

// deny refuses the reservations that do not fit beside what the refusing
// counters hold, and makes those wait that do not fit beside the transaction's
// other operations: nobody is denied for a write that has not landed. A
// counter's strictest bound holds for all, as it did in the write.
func (t *txn) deny(stored map[int]money.Picos, over map[*op]bool) (wait map[*op]bool) {
	at := make(map[store.Key]int, len(stored))
	used := make(map[int]money.Picos, len(stored))
	for i, u := range stored {
		at[t.items[i].key] = i
		used[i] = u
	}
	touched := func(o *op) map[int]money.Picos { // refusing counters it debits → what it adds
		adds := map[int]money.Picos{}
		for _, d := range o.debits {
			key := shardKey(d.pk, d.prefix, t.shards[store.Key{PK: d.pk, SK: d.prefix}])
			if i, ok := at[key]; ok {
				adds[i] = o.delta(d).used
			}
		}
		return adds
	}
	for _, o := range t.ops {
		if o.kind != opReserve && !over[o] {
			for i, add := range touched(o) {
				used[i] = used[i].Add(add)
			}
		}
	}
	wait = map[*op]bool{}
	for _, o := range t.ops {
		if o.kind != opReserve || over[o] {
			continue
		}
		adds := touched(o)
		for i, add := range adds {
			if used[i].Add(add).Cmp(t.items[i].bound) <= 0 {
				continue
			}
			if stored[i].Add(add).Cmp(t.items[i].bound) <= 0 {
				wait[o] = true
				continue
			}
			o.verdict.noRoom = true
			over[o] = true
			o.fullAt(t.items[i].key, stored[i])
		}
		if over[o] || wait[o] {
			continue
		}
		for i, add := range adds {
			used[i] = used[i].Add(add)
		}
	}
	return wait
}
