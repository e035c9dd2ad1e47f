package ledger

import (
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Account identifies the counters of one label on one day. It is a plain value that makes
// operations.
type Account struct {
	Org    string // the organisation's id
	Scope  string // the scope of the spend, see AppScope
	Label  string // the model label
	Day    string // like 20260123
	Shards int    // the number of shards of the day's counters
	Keep   int    // days until its items expire
}

// NewSubmission makes the operation that counts a record on the account, and its cost under each tag. late
// means that the day's total may be stored already.
func (a Account) NewSubmission(r Record, tags map[string]string, late bool) *Operation {
	o := a.baseOperation(late)
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		o.debits = append(o.debits, a.tagDebit(name, tags[name]))
	}
	r.label, r.scope, r.day = a.Label, a.Scope, a.Day
	o.record = &r
	return o
}

// NewAdjustment makes the operation that applies an audited credit or charge to the account. It has a queue of
// its own, because it also needs the control table: while that table does not answer, calls must not wait
// behind it.
func (a Account) NewAdjustment(adj Adjustment, late bool) *Operation {
	o := a.baseOperation(late)
	o.lane += "##adjust"
	adj.writer = o.writer
	o.adjust = &adj
	return o
}

// baseOperation returns an operation on the account's counter, without a record or an adjustment. late means
// that the day's total may be stored already: the write then marks it as reopened.
func (a Account) baseOperation(late bool) *Operation {
	o := newOperation()
	o.day, o.expires = a.Day, expirySeconds(a.Day, a.Keep)
	o.Org, o.Scope, o.lane = a.Org, a.Scope, a.Scope+"#"+a.Label+"#"+a.Day
	o.debits = []Debit{{PK: LabelPartition(a.Scope, a.Label), Prefix: dayPrefix(a.Day), Shards: a.Shards}}
	if late {
		o.reopens = []store.Key{ClosedKey(a.Scope, a.Day, a.Label)}
	}
	return o
}

// expirySeconds returns the expiry of a day's items in unix seconds. It is keepDays and two days
// after the day, which is a day after the last time zone has passed that date.
func expirySeconds(day string, keepDays int) int64 {
	noon, _ := calendar.ParseDay(day) // validated before
	return noon.AddDate(0, 0, keepDays+2).Unix()
}

// tagDebit returns the debit that adds a record's cost to the counter of one value of a tag. That counter
// counts no tokens.
func (a Account) tagDebit(name, value string) Debit {
	return Debit{PK: TagPartition(a.Scope, name), Prefix: tagPrefix(a.Day, value), Shards: a.Shards, Bare: true}
}

// LabelDay returns the key of the counter of a label's day, without a shard.
func LabelDay(scope, label, day string) store.Key {
	return store.Key{PK: LabelPartition(scope, label), SK: dayPrefix(day)}
}
