package laws

import (
	"bytes"
	"runtime"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// fault decides what goes wrong with a request of a history.
func (h *history) fault(q *ddbmem.Request) ddbmem.Fault {
	if q.Context.Value(quiet{}) != nil || h.settled.Load() {
		return ddbmem.Fault{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var f ddbmem.Fault
	if h.mode.latency > 0 {
		f.Before = time.Duration(h.luck.Int64N(h.mode.latency)) * time.Millisecond
		f.After = time.Duration(h.luck.Int64N(h.mode.latency)) * time.Millisecond
	} else {
		for range h.luck.IntN(3) {
			runtime.Gosched() // let others queue
		}
	}
	if !h.mode.faults {
		return f
	}
	write := strings.HasPrefix(q.Operation, "Update") || strings.HasPrefix(q.Operation, "Put") || strings.HasPrefix(q.Operation, "Transact")
	switch p := h.luck.Float64(); {
	case time.Now().Before(h.silent) && p < .5:
		f.Drop = true
	case time.Now().Before(h.silent):
		f.Before = time.Minute
	case write && h.isThrottled(q.Body):
		f.Error = &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}
	case p < .08:
		f.Lose = true
	case p < .11:
		f.Drop = true
	case p < .16 && write:
		late := make(chan struct{})
		h.late = append(h.late, late)
		f.Late = late
	case p < .19:
		f.Error = &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}
	case p < .21:
		f.Error = &ddbmem.Error{Code: "InternalServerError"}
	case p < .24 && strings.HasPrefix(q.Operation, "Transact"):
		f.Error = &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}, {}}}
	case p < .24 && write:
		f.Error = &ddbmem.Error{Code: "TransactionConflictException"}
	case p < .35 && q.Operation == "BatchGetItem":
		f.Unprocessed = 1 + h.luck.IntN(6)
	}
	return f
}

// isThrottled reports whether a request writes to a bucket that takes none now;
// h.mu must be held.
func (h *history) isThrottled(body []byte) bool {
	for entity, until := range h.throttled {
		if time.Now().Before(until) && bytes.Contains(body, []byte(`"ENTITY#`+entity+`"`)) {
			return true
		}
	}
	return false
}
