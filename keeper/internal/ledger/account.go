package ledger

import (
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Account is where the calls of one label are counted on one day. It is a plain value
// that makes operations.
type Account struct {
	Org    string // the organisation's id
	Scope  string // whose spend is counted together, see AppScope
	Label  string // the model label
	Day    string // like 20260123
	Shards int    // over which the day is spread
	Keep   int    // days that it is kept
}

// Submission makes the operation that counts a record, and what its tags cost. late
// means that the day's total may be closed.
func (a Account) Submission(r Record, tags map[string]string, late bool) *Operation {
	o := a.operation(late)
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		o.debits = append(o.debits, a.tagDebit(name, tags[name]))
	}
	r.label, r.scope, r.day = a.Label, a.Scope, a.Day
	o.record = &r
	return o
}

// Adjustment makes the operation that applies an audited credit or charge. It has a lane
// of its own beside the account's, for it needs the control table too: calls do not wait
// while that does not answer.
func (a Account) Adjustment(adj Adjustment, late bool) *Operation {
	o := a.operation(late)
	o.lane += "##adjust"
	adj.writer = o.writer
	o.adjust = &adj
	return o
}

func (a Account) operation(late bool) *Operation {
	o := newOperation()
	o.day, o.expires = a.Day, expires(a.Day, a.Keep)
	o.Org, o.Scope, o.lane = a.Org, a.Scope, a.Scope+"#"+a.Label+"#"+a.Day
	o.debits = []Debit{{PK: LabelPartition(a.Scope, a.Label), Prefix: dayPrefix(a.Day), Shards: a.Shards}}
	if late {
		o.reopens = []store.Key{ClosedKey(a.Scope, a.Day, a.Label)}
	}
	return o
}

// expires is when what was counted on a day may go, in unix seconds: when no zone has the last
// of so many days after it any more, and a day later.
func expires(day string, keepDays int) int64 {
	noon, _ := calendar.ParseDay(day) // it was one
	return noon.AddDate(0, 0, keepDays+2).Unix()
}

// tagDebit is the counter of what calls with one value of a tag cost.
func (a Account) tagDebit(name, value string) Debit {
	return Debit{PK: TagPartition(a.Scope, name), Prefix: tagPrefix(a.Day, value), Shards: a.Shards, Bare: true}
}

// LabelDay is the counter of a label's day, whatever its shards.
func LabelDay(scope, label, day string) store.Key {
	return store.Key{PK: LabelPartition(scope, label), SK: dayPrefix(day)}
}
