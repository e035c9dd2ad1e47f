package ddbmem

import (
	"context"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// Request is a request as a FaultFunc sees it, before it executes.
type Request struct {
	// Seq numbers the requests of a DB from 1, in the order of arrival.
	Seq int64
	// Operation is the API call, such as "UpdateItem".
	Operation string
	// Table is the table, or the first one of a batch or transaction.
	Table string
	// Body is the JSON of the request. Do not change it.
	Body []byte
	// Context is the client's; it ends when the client gives up.
	Context context.Context
}

// Fault is the failure of one request. The zero value is no fault.
type Fault struct {
	// Before and After are latencies: before the request executes, and between
	// that and the answer. When the request's context ends during Before, it does
	// not execute; during After, it has executed.
	Before, After time.Duration
	// Error is answered instead of executing the request.
	Error *Error
	// Drop loses the request: it does not execute and the client sees the
	// connection reset.
	Drop bool
	// Lose loses the answer: the request executes and the client sees the
	// connection reset.
	Lose bool
	// Late loses the answer at once, and executes the request only when the channel
	// is closed, see DB.Wait.
	Late <-chan struct{}
	// Unprocessed is how many keys or items of a batch come back unprocessed, from
	// the end, at most all.
	Unprocessed int
}

// FaultFunc decides the fault of a request. It is called for each request
// and may be called by several goroutines at once, which are not the test's: t.FailNow, and so
// package require, would end the client's goroutine and not the test. Use t.Error there, or
// package assert.
type FaultFunc func(*Request) Fault

// SetFaults sets the function that chooses the fault of each request from now on, and replaces an earlier one.
// nil removes it.
func (db *DB) SetFaults(f FaultFunc) {
	if f == nil {
		db.faults.Store(nil)
		return
	}
	db.faults.Store(&f)
}

// chooseFault asks the function set by SetFaults for the fault of a request. It returns the zero Fault if none
// is set.
func (db *DB) chooseFault(ctx context.Context, seq int64, operation string, body []byte) Fault {
	f := db.faults.Load()
	if f == nil {
		return Fault{}
	}
	return (*f)(&Request{Seq: seq, Operation: operation, Table: firstTable(body), Body: body, Context: ctx})
}

// pauseFor waits for d or the end of ctx, and returns ctx's error if that comes first. It returns nil at once
// if d is not positive.
func pauseFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errReset returns a new network error, as a client gets it after its connection was reset.
func errReset() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

// executeLater starts a goroutine that executes the request when f.Late is closed, and drops its answer. If the
// DB closes first, the request never executes. Wait and Close wait for the goroutine.
func (db *DB) executeLater(f Fault, operation string, seq int64, body []byte) {
	db.countLate(1)
	go func() {
		defer db.countLate(-1)
		select {
		case <-f.Late:
		case <-db.closed:
			select {
			case <-f.Late: // both: it was let go
			default:
				return
			}
		}
		_, _ = db.execute(operation, seq, body, f.Unprocessed) // the client does not wait for the answer
	}()
}

// countLate adds n to the number of late requests, and wakes the callers of Wait when it comes to 0.
func (db *DB) countLate(n int) {
	db.noneLate.L.Lock()
	defer db.noneLate.L.Unlock()
	if db.late += n; db.late == 0 {
		db.noneLate.Broadcast()
	}
}

// firstTable returns the name of the first table in the request's JSON, and "" if it names no table. An ARN in
// place of a name is returned whole.
func firstTable(body []byte) string {
	name := ""
	r := wire.NewReader(body)
	set := func(s string) {
		if name == "" {
			name = s
		}
	}
	r.Object(func(member string) {
		switch member {
		case "TableName":
			set(r.String())
		case "RequestItems":
			r.Object(func(table string) { set(table); r.Skip() })
		case "TransactItems":
			r.Array(func() { r.Object(func(string) { set(readItemTable(r)) }) })
		default:
			r.Skip()
		}
	})
	return name
}

// readItemTable reads one item of a transaction and returns its TableName, or "" if it has none.
func readItemTable(r *wire.Reader) string {
	name := ""
	r.Object(func(member string) {
		if member == "TableName" {
			name = r.String()
			return
		}
		r.Skip()
	})
	return name
}
