package ledger

import (
	"strings"
	"sync/atomic"
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

// Record is a usage record ready to be counted.
type Record struct {
	Key          store.Key // of its dedup item
	Hash         string    // of the payload
	label        string    // the account's
	scope        string    // whose spend it counts to
	day          string
	Cost         money.Picos
	Tokens       Tokens // used by the call
	PriceVersion string // the price it was counted at
	Expires      int64  // when its item may go, in unix seconds
	At           int64  // of the call, in unix seconds
}

// Hold is a hold as stored.
type Hold struct {
	ID       string      // a random UUID
	App      string      // the app's id; empty of one that was held by an older version
	Name     store.Key   // where what it was is kept; the zero key if its caller chose no id
	Keys     []store.Key // where it may be: one, or two when moving it was not answered
	Scope    string      // whose spend it counts to
	Label    string      // the model label
	Day      string      // the call is counted on
	Estimate money.Picos // what it holds; nothing of a barred one
	Debits   []Debit     // the counters it is held on
	ExpireMs int64       // the end of its lease, in unix milliseconds
	TTL      int64       // when its item may go, in unix seconds
	Lane     string      // in which it is written
}

// Operation is what one caller asks, from the queue to its outcome. An Account makes it,
// or GiveBack.
type Operation struct {
	// What is asked for. A settlement of a record that was counted before becomes a
	// release; nothing else changes here.

	kind    opKind
	writer  string      // own id, recognised in an item that a lost answer hides
	Org     string      // the organisation's id
	Scope   string      // whose spend it counts to
	lane    string      // its name, see Account.lane
	record  *Record     // of a submission or a settlement
	Hold    *Hold       // of a reservation, a settlement or a release
	name    *Name       // of a reservation under its caller's id
	adjust  *Adjustment // of an adjustment
	debits  []Debit     // the counters it changes
	reopens []store.Key // closed totals this write makes open again
	unkept  bool        // counted without an item of its own
	barsID  bool        // a release that leaves no hold behind that is still to come

	// What its tries have taught. Of the goroutine that writes it alone.

	keysGone      int                       // hold keys found gone
	followers     []*Operation              // that send the same record
	fullCounters  map[store.Key]money.Picos // counters without room for it, with what they held
	liveHolds     []*Hold                   // of its scope, when it was refused
	deniedOnce    bool                      // refused for lack of room once, expired holds released
	unanswered    bool                      // sent and not answered, once
	firstConflict time.Time                 // of the first conflict
	conflicts     int

	Verdict Verdict       // set once done is closed
	state   atomic.Int32  // see opWaiting
	done    chan struct{} // closed when it is finished
}

// Verdict is how an operation ended.
type Verdict struct {
	err       error
	Duplicate bool        // its id was used before
	Conflict  bool        // for something else
	NoRoom    bool        // a counter has no room for it
	Stored    Stored      // of an accepted or duplicate record
	Adjusted  *Adjustment // of a duplicate adjustment
	Named     *Name       // of a duplicate reservation
}

// Stored is what a dedup item says.
type Stored struct {
	Hash         string      // of the payload
	Cost         money.Picos // what was counted
	Label        string      // under which
	Scope        string      // whose spend it counted to
	Day          string      // it was counted on
	Shard        int         // of the day's counter
	PriceVersion string      // the price it was counted at
	writer       string
}

// holdGone reports whether every key that the hold may have was found gone.
func (o *Operation) holdGone() bool { return o.Hold == nil || o.keysGone >= len(o.Hold.Keys) }

// Missed reports whether a finished settlement or release did not find its hold: it has ended,
// or was moved elsewhere.
func (o *Operation) Missed() bool {
	return o.Hold != nil && !o.Verdict.Conflict && o.holdGone()
}

// holdUnneeded reports whether the settlement's record was counted before, by another
// operation, while its hold may still be there. After a conflict the hold stays, because
// its own call has not been counted yet.
func (o *Operation) holdUnneeded() bool {
	return o.kind == opSettle && o.Verdict.Duplicate && !o.Verdict.Conflict && !o.holdGone()
}

// releaseOnly reduces a settlement to giving its hold back. The verdict on its record
// stays.
func (o *Operation) releaseOnly() {
	o.kind, o.record, o.debits, o.reopens = opRelease, nil, o.Hold.Debits, nil
}

// fullAt notes the counter that has no room for the operation.
func (o *Operation) fullAt(key store.Key, used money.Picos) {
	if o.fullCounters == nil {
		o.fullCounters = map[store.Key]money.Picos{}
	}
	for _, d := range o.debits {
		if d.PK == key.PK && strings.HasPrefix(key.SK, d.Prefix) {
			o.fullCounters[d.ref()] = used
		}
	}
}

// delta is what the operation adds to one of its counters. The counter of the label's
// day counts everything; the others count only money.
func (o *Operation) delta(d Debit) Counter {
	row := Counter{Writes: 1, Hard: d.Hard}
	switch o.kind {
	case opReserve:
		row.Used = o.Hold.Estimate
	case opRelease:
		row.Used = o.Hold.Estimate.Neg()
	case opAdjust:
		if change := o.adjust.Change; change.IsNegative() {
			row.credit = change.Neg()
		} else {
			row.Cost = change
		}
		row.Used = o.adjust.Change
	case opSubmit, opSettle:
		row.Cost, row.Used, row.Requests = o.record.Cost, o.record.Cost, 1
		if !d.Bare {
			row.Tokens = o.record.Tokens
		}
		if o.kind == opSettle && !o.holdGone() {
			row.Used = row.Used.Sub(o.Hold.Estimate)
		}
	}
	if !d.Hard {
		row.Used = money.Picos{}
	}
	return row
}

func (r *Record) stored(writer string, shard int) Stored {
	return Stored{
		Hash: r.Hash, writer: writer, Cost: r.Cost, Label: r.label, Scope: r.scope,
		Day: r.day, Shard: shard, PriceVersion: r.PriceVersion,
	}
}
