package budget

import (
	"sync/atomic"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// onTransactions gives the n-th transaction, from 1, its fault.
func onTransactions(fault func(n int) ddbmem.Fault) ddbmem.FaultFunc {
	var n atomic.Int32
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation != "TransactWriteItems" {
			return ddbmem.Fault{}
		}
		return fault(int(n.Add(1)))
	}
}
