package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

func newOp(kind opKind) *Operation {
	return &Operation{kind: kind, writer: store.NewID(), done: make(chan struct{})}
}

func (a Account) op(kind opKind) *Operation {
	o := newOp(kind)
	o.Org, o.Scope, o.lane, o.debits = a.Org, a.Scope, a.lane(), a.debits()
	return o
}

// Submission makes the operation that counts a record, and what its tags cost. late
// means that the day's total may be closed.
func (a Account) Submission(r Record, tags map[string]string, late bool) *Operation {
	o := a.op(opSubmit)
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		o.debits = append(o.debits, a.tagDebit(name, tags[name]))
	}
	r.label, r.scope, r.day = a.Label, a.Scope, a.Day
	o.record, o.reopens = &r, a.reopened(late)
	return o
}

// Adjustment makes the operation that applies an audited credit or charge. It has a lane
// of its own beside the account's, for it needs the control table too: calls do not wait
// while that does not answer.
func (a Account) Adjustment(adj Adjustment, late bool) *Operation {
	o := a.op(opAdjust)
	o.lane += "##adjust"
	adj.writer = o.writer
	o.adjust, o.reopens = &adj, a.reopened(late)
	return o
}

// Reservation makes the operation that holds an amount of an app's under an id until
// expires. If nobody gives the hold back, the store keeps it until ttl, in unix seconds.
func (a Account) Reservation(app, id string, estimate money.Picos, expires time.Time, ttl int64) *Operation {
	o := a.op(opReserve)
	ms := expires.UnixMilli()
	o.Hold = &Hold{
		ID: id, App: app, Keys: []store.Key{holdKey(a.Scope, ms, id)}, Scope: a.Scope, Label: a.Label, Day: a.Day,
		Estimate: estimate, Debits: o.debits, ExpireMs: ms, TTL: ttl, Lane: o.lane,
	}
	return o
}

// Cap bounds one counter of a reservation, if it debits it, until its period ends.
func (o *Operation) Cap(ref store.Key, bound money.Picos, resetAt time.Time) {
	if i := slices.IndexFunc(o.debits, func(d Debit) bool { return d.ref() == ref }); i >= 0 {
		o.debits[i].cap(bound, resetAt)
	}
}

// Settles makes a submission give a hold back too: it then debits the counters of the
// hold, and of its tags.
func (o *Operation) Settles(h *Hold) {
	tags := slices.DeleteFunc(o.debits, func(d Debit) bool { return d.Hard || !d.Bare })
	o.kind, o.Hold, o.lane, o.Scope = opSettle, h, h.Lane, h.Scope
	o.debits = append(slices.Clone(h.Debits), tags...)
}

// KeepRecord keeps the record of a submission until an instant, if it would go before.
func (o *Operation) KeepRecord(until time.Time) {
	o.record.Expires = max(o.record.Expires, until.Unix())
}

// GiveBack makes the operation that gives a hold back.
func GiveBack(h *Hold) *Operation {
	o := newOp(opRelease)
	o.Org, o.Scope, o.lane = orgOf(h.Scope), h.Scope, h.Lane
	o.Hold, o.debits = h, h.Debits
	return o
}

// Hard reports whether the operation's counters also count what is held.
func (o *Operation) Hard() bool { return o.debits[0].Hard }
