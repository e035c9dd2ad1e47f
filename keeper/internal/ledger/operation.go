package ledger

import (
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
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

// Operation is what one caller asks, from the queue to its outcome: to count a record, or
// to apply an adjustment. An Account makes it.
type Operation struct {
	// What is asked for; nothing changes here.

	writer  string      // own id, recognised in an item that a lost answer hides
	Org     string      // the organisation's id
	Scope   string      // whose spend it counts to
	lane    string      // its name
	record  *Record     // nil of an adjustment
	adjust  *Adjustment // nil of a record
	debits  []Debit     // the counters it changes, the label's day first
	reopens []store.Key // closed totals this write makes open again
	day     string      // that of the account
	expires int64       // when the day's counters may go, in unix seconds

	// What its tries have taught. Of the goroutine that writes it alone.

	followers     []*Operation // that send the same record
	firstConflict time.Time    // of the first conflict
	conflicts     int
	taken         bool // it has left the queue once, so that it may have been sent. The lanes' lock guards it

	Verdict Verdict       // set once done is closed
	state   atomic.Int32  // see opWaiting
	done    chan struct{} // closed when it is finished
}

func newOperation() *Operation {
	return &Operation{writer: store.NewID(), done: make(chan struct{})}
}

// Verdict is how an operation ended.
type Verdict struct {
	err       error
	Duplicate bool        // its id was used before
	Conflict  bool        // for something else
	Stored    Stored      // of an accepted or duplicate record
	Adjusted  *Adjustment // of a duplicate adjustment
}

// delta is what the operation adds to one of its counters. The counter of the label's
// day counts everything; the others count only money.
func (o *Operation) delta(d Debit) Counter {
	row := Counter{Writes: 1}
	if o.adjust != nil {
		if change := o.adjust.Change; change.IsNegative() {
			row.credit = change.Neg()
		} else {
			row.Cost = change
		}
		return row
	}
	row.Cost, row.Requests = o.record.Cost, 1
	if !d.Bare {
		row.Tokens = o.record.Tokens
	}
	return row
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

func (r *Record) stored(writer string, shard int) Stored {
	return Stored{
		Hash: r.Hash, writer: writer, Cost: r.Cost, Label: r.label, Scope: r.scope,
		Day: r.day, Shard: shard, PriceVersion: r.PriceVersion,
	}
}
