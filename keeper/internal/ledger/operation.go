package ledger

import (
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Record is a usage record, ready to be counted.
type Record struct {
	Key          store.Key // key of its dedup item
	Hash         string    // of the payload
	label        string    // label of the account
	scope        string    // scope of the spend
	day          string
	Cost         money.Picos
	Tokens       Tokens // used by the call
	PriceVersion string // version of the price it was counted at
	Expires      int64  // expiry of its item, in unix seconds
	At           int64  // time of the call, in unix seconds
}

// Operation is the request of one caller, from the queue to its outcome: to count a record or
// to apply an adjustment. An Account makes it.
type Operation struct {
	// The request. These fields do not change.

	writer  string      // a random id. It recognises an own write whose answer was lost
	Org     string      // the organisation's id
	Scope   string      // scope of the spend
	lane    string      // name of its lane
	record  *Record     // nil for an adjustment
	adjust  *Adjustment // nil for a record
	debits  []Debit     // the counters it changes, the label's day first
	reopens []store.Key // closed totals that this write reopens
	day     string      // day of the account
	expires int64       // expiry of the day's counters, in unix seconds

	// Results of its tries. Only the goroutine that writes the operation uses them.

	followers     []*Operation // operations with the same record
	firstConflict time.Time    // time of the first conflict
	conflicts     int
	taken         bool // true once it has left the queue and may have been sent. Guarded by the lanes' lock

	Verdict Verdict       // valid once done is closed
	state   atomic.Int32  // see opWaiting
	done    chan struct{} // closed when it is finished
}

// newOperation returns an operation with a random writer id and without debits. The caller adds those and
// queues it with Write.
func newOperation() *Operation {
	return &Operation{writer: store.NewID(), done: make(chan struct{})}
}

// Verdict is the result of an operation.
type Verdict struct {
	err       error
	Duplicate bool        // the id was used before
	Conflict  bool        // the id was used for another request
	Stored    Stored      // the counted record, own or earlier
	Adjusted  *Adjustment // the earlier adjustment, if duplicate
}

// amountsFor returns the operation's amounts for the counter of d: one write, and for a record its cost, one
// request, and unless d.Bare its tokens. An adjustment adds its charge or its credit only.
func (o *Operation) amountsFor(d Debit) Counter {
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

// Stored is the content of a dedup item.
type Stored struct {
	Hash         string      // of the payload
	Cost         money.Picos // counted cost
	Label        string      // counted label
	Scope        string      // scope of the spend
	Day          string      // counted day
	Shard        int         // shard of the day's counter
	PriceVersion string      // version of the price it was counted at
	writer       string
}

// storedCopy returns the content of the dedup item that the operation writer stores for the record. shard is
// the shard of its counter. It reads and writes nothing.
func (r *Record) storedCopy(writer string, shard int) Stored {
	return Stored{
		Hash: r.Hash, writer: writer, Cost: r.Cost, Label: r.label, Scope: r.scope,
		Day: r.day, Shard: shard, PriceVersion: r.PriceVersion,
	}
}
