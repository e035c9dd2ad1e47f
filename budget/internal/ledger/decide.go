package ledger

import (
	"maps"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// refusal is a condition of a transaction that did not hold, with what the item contains
// instead.
type refusal struct {
	item     int
	stored   Stored  // of a dedup item
	counter  Counter // of a counter
	adjusted *Adjustment
	hold     *Hold // in the place of one
	named    *Name
}

// resolve decides about the operations of a refused transaction. Finished operations
// have their verdict. The others are tried again in a new transaction; the deferred ones
// after that, because they fit beside what is stored but not beside the others. Every
// refusal finishes, changes or defers at least one operation, so the tries come to an
// end.
func (t *transaction) resolve(refused []refusal) (finished, again, deferred []*Operation) {
	over := map[*Operation]bool{}
	used := map[int]money.Picos{} // of the counters that refused
	for _, r := range refused {
		it := t.items[r.item]
		if it.kind == addCounter {
			used[r.item] = r.counter.Used
			continue
		}
		over[it.op] = it.op.refused(it.kind, r, over[it.op])
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

// deny refuses the reservations that do not fit beside what the refusing counters hold.
// Reservations that only do not fit beside the transaction's other operations have to
// wait, because nobody is denied for a write that has not landed. The strictest bound of
// a counter holds for all, as it did in the write.
func (t *transaction) deny(stored map[int]money.Picos, over map[*Operation]bool) (wait map[*Operation]bool) {
	full := t.refusing(stored)
	for _, o := range t.ops {
		if o.kind != opReserve && !over[o] {
			full.add(o)
		}
	}
	wait = map[*Operation]bool{}
	for _, o := range t.ops {
		if o.kind != opReserve || over[o] {
			continue
		}
		switch denied, waits := full.judge(o); {
		case denied:
			o.Verdict.NoRoom, over[o] = true, true
		case waits:
			wait[o] = true
		default:
			full.add(o)
		}
	}
	return wait
}

// refusingCounters are the counters of a transaction that refused it, by the indexes of
// their items.
type refusingCounters struct {
	t      *transaction
	at     map[store.Key]int
	stored map[int]money.Picos // what they hold
	used   map[int]money.Picos // and with what of the transaction is to be tried again
}

func (t *transaction) refusing(stored map[int]money.Picos) *refusingCounters {
	c := &refusingCounters{t: t, at: make(map[store.Key]int, len(stored)), stored: stored, used: maps.Clone(stored)}
	for i := range stored {
		c.at[t.items[i].key] = i
	}
	return c
}

// adds is what the operation adds to each of them.
func (c *refusingCounters) adds(o *Operation) map[int]money.Picos {
	adds := map[int]money.Picos{}
	for _, d := range o.debits {
		key := shardKey(d.PK, d.Prefix, c.t.shards[d.ref()])
		if i, ok := c.at[key]; ok {
			adds[i] = o.delta(d).Used
		}
	}
	return adds
}

func (c *refusingCounters) add(o *Operation) {
	for i, add := range c.adds(o) {
		c.used[i] = c.used[i].Add(add)
	}
}

// judge reports whether a reservation is denied by what a counter holds, or has to wait
// only because of the transaction's other operations.
func (c *refusingCounters) judge(o *Operation) (denied, waits bool) {
	for i, add := range c.adds(o) {
		bound := c.t.items[i].bound
		switch {
		case c.used[i].Add(add).Cmp(bound) <= 0:
		case c.stored[i].Add(add).Cmp(bound) <= 0:
			waits = true
		default:
			denied = true
			o.fullAt(c.t.items[i].key, c.stored[i])
		}
	}
	return denied, waits
}
