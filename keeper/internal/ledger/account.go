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

// NewSubmission returns an operation that counts the record r, and its cost under each tag, by name and value.
// It writes nothing and leaves r unchanged. late marks the day's stored total as reopened by the write.
func (a Account) NewSubmission(r Record, tags map[string]string, late bool) *Operation {
	o := a.baseOperation(late)
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		o.debits = append(o.debits, a.tagDebit(name, tags[name]))
	}
	r.label, r.scope, r.day = a.Label, a.Scope, a.Day
	o.record = &r
	return o
}

// NewAdjustment returns an operation that applies a credit or charge to the account; it writes nothing. late is
// as for NewSubmission. Its lane is not the lane of calls, which must not wait while the control table is
// silent.
func (a Account) NewAdjustment(adj Adjustment, late bool) *Operation {
	o := a.baseOperation(late)
	o.lane += "##adjust"
	adj.writer = o.writer
	o.adjust = &adj
	return o
}

// baseOperation returns an operation that debits the counter of the account's label and day, still without a
// record or an adjustment. With late, its write marks the stored total of the day as reopened.
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

// expirySeconds returns the expiry of the items of a day, in Unix seconds: noon UTC, keepDays and two days
// after the day. day must be valid.
func expirySeconds(day string, keepDays int) int64 {
	noon, _ := calendar.ParseDay(day) // validated before
	return noon.AddDate(0, 0, keepDays+2).Unix()
}

// tagDebit returns the debit of the account's day for one value of a tag, such as name "team" and value
// "search". It adds only money and requests, no tokens.
func (a Account) tagDebit(name, value string) Debit {
	return Debit{PK: TagPartition(a.Scope, name), Prefix: tagPrefix(a.Day, value), Shards: a.Shards, Bare: true}
}

// LabelDay returns the key that identifies the counter of a scope's label on a day. It has no shard number, so
// it is not the key of an item.
func LabelDay(scope, label, day string) store.Key {
	return store.Key{PK: LabelPartition(scope, label), SK: dayPrefix(day)}
}
