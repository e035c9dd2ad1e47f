package testworld

import (
	"sync/atomic"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// On gives the requests of one operation a fault.
func On(operation string, f ddbmem.Fault) ddbmem.FaultFunc { return FirstOf(operation, -1, f) }

// FirstOf strikes the first n requests of an operation, all when n is below 0.
func FirstOf(operation string, n int64, f ddbmem.Fault) ddbmem.FaultFunc {
	var seen atomic.Int64
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation != operation || seen.Add(1) > n && n >= 0 {
			return ddbmem.Fault{}
		}
		return f
	}
}

// Cancelled is the error of a transaction with a reason for each of its items.
func Cancelled(codes ...string) *ddbmem.Error {
	e := &ddbmem.Error{Code: "TransactionCanceledException"}
	for _, code := range codes {
		e.Reasons = append(e.Reasons, ddbmem.Reason{Code: code})
	}
	return e
}
