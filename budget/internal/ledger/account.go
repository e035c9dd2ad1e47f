package ledger

import (
	"slices"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// Account is where the calls of one label are counted on one day. It is a plain value
// that makes operations.
type Account struct {
	Org    string          // the organisation's id
	Scope  string          // whose spend is counted together, see ScopeKey
	Label  string          // the model label
	Day    string          // like 20260123
	Rule   calendar.Regime // decides which counters there are
	Shards int             // of a soft day
}

// debits lists the account's counters, the label's day first.
func (a Account) debits() []Debit {
	d := Debit{CounterRef: CounterRef{LabelPartition(a.Scope, a.Label), shardPrefix(calendar.Day, a.Day), a.Shards}}
	if a.Rule.Enforcement != calendar.Hard {
		return []Debit{d}
	}
	d.Hard, d.Shards = true, 1
	out := []Debit{d}
	for _, kind := range a.Rule.Kinds() {
		pk := LabelPartition(a.Scope, a.Label)
		if kind.Total {
			pk = TotalPartition(a.Scope)
		}
		out = append(out, Debit{
			CounterRef: CounterRef{pk, shardPrefix(kind.Period, a.Day), 1}, Hard: true, Bare: true,
		})
	}
	return out
}

// tagDebit is the counter of what calls with one value of a tag cost.
func (a Account) tagDebit(name, value string) Debit {
	return Debit{CounterRef: CounterRef{TagPartition(a.Scope, name), tagPrefix(a.Day, value), a.Shards}, Bare: true}
}

// lane names the counters that operations on the account share with other operations.
func (a Account) lane() string {
	if a.Rule.Enforcement != calendar.Hard {
		return a.Scope + "#" + a.Label + "#" + a.Day
	}
	for _, kind := range a.Rule.Kinds() {
		if kind.Total {
			return a.Scope
		}
	}
	return a.Scope + "#" + a.Label
}

// lane is that of the account whose counters a hold debits.
func (h *Hold) lane() string {
	if slices.ContainsFunc(h.Debits, func(d Debit) bool { return d.PK == TotalPartition(h.Scope) }) {
		return h.Scope
	}
	return h.Scope + "#" + h.Label
}

// reopened names the closed total that a write to the account's day makes wrong. late
// means that there may be one.
func (a Account) reopened(late bool) []store.Key {
	if !late {
		return nil
	}
	return []store.Key{ClosedKey(a.Scope, a.Day, a.Label)}
}

// Limit is what a quota counts: a period, of one label or of all.
type Limit struct {
	Period calendar.Period // how long
	Label  string          // empty: all labels
}

// Kind is the counter that hard mode keeps for the limit.
func (l Limit) Kind() calendar.CounterKind {
	return calendar.CounterKind{Period: l.Period, Total: l.Label == ""}
}

// Ref is the key of that counter on a day.
func (l Limit) Ref(scope, day string) store.Key {
	pk := TotalPartition(scope)
	if l.Label != "" {
		pk = LabelPartition(scope, l.Label)
	}
	return store.Key{PK: pk, SK: shardPrefix(l.Period, day)}
}

// LabelDay is the counter of a label's day, whatever its shards.
func LabelDay(scope, label, day string) store.Key {
	return store.Key{PK: LabelPartition(scope, label), SK: shardPrefix(calendar.Day, day)}
}
