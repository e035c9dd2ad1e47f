package testworld

import (
	"sync/atomic"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// FaultOn returns a function for SetFaults that applies a fault to all requests of an operation.
func FaultOn(operation string, f ddbmem.Fault) ddbmem.FaultFunc {
	return FaultOnFirst(operation, -1, f)
}

// FaultOnFirst returns a function for SetFaults that applies a fault to the first n requests of an operation,
// or to all if n is negative.
func FaultOnFirst(operation string, n int64, f ddbmem.Fault) ddbmem.FaultFunc {
	var seen atomic.Int64
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation != operation || seen.Add(1) > n && n >= 0 {
			return ddbmem.Fault{}
		}
		return f
	}
}

// CancelledError returns the error of a cancelled transaction, with one reason code for each item.
func CancelledError(codes ...string) *ddbmem.Error {
	e := &ddbmem.Error{Code: "TransactionCanceledException"}
	for _, code := range codes {
		e.Reasons = append(e.Reasons, ddbmem.Reason{Code: code})
	}
	return e
}
