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
	f := h.delay()
	if !h.mode.faults {
		return f
	}
	write := writes(q.Operation)
	switch p, now := h.luck.Float64(), time.Now(); {
	case now.Before(h.silent) && p < .5:
		f.Drop = true
	case now.Before(h.silent):
		f.Before = time.Minute
	case (write || q.Operation == "GetItem") && h.isThrottled(q.Body, write):
		f.Error = throttled
	case p < .16:
		h.unanswered(&f, p, write)
	case p < .35:
		h.refused(&f, p, write, q.Operation)
	}
	if q.Operation == "BatchGetItem" && (f.Error != nil || f.Lose || f.Drop || f.Before >= time.Minute) {
		h.oracle.unanswered()
	}
	return f
}

// writes reports whether an operation charges or makes a bucket.
func writes(operation string) bool {
	return strings.HasPrefix(operation, "Update") || strings.HasPrefix(operation, "Put") || strings.HasPrefix(operation, "Transact")
}

var throttled = &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}

// delay is how long a request is under way, in ms each way; without latency others
// may go first. h.mu must be held.
func (h *history) delay() (f ddbmem.Fault) {
	if h.mode.latency > 0 {
		f.Before = time.Duration(h.luck.Int64N(h.mode.latency)) * time.Millisecond
		f.After = time.Duration(h.luck.Int64N(h.mode.latency)) * time.Millisecond
		return f
	}
	for range h.luck.IntN(3) {
		runtime.Gosched() // let others queue
	}
	return f
}

// unanswered are the requests whose caller learns nothing; h.mu must be held.
func (h *history) unanswered(f *ddbmem.Fault, p float64, write bool) {
	switch {
	case p < .08:
		f.Lose = true
	case p < .11:
		f.Drop = true
	case write:
		late := make(chan struct{})
		h.late = append(h.late, late)
		f.Late = late
	default:
		f.Error = throttled
	}
}

// refused are those that the store answers with an error, or in part; h.mu must be
// held.
func (h *history) refused(f *ddbmem.Fault, p float64, write bool, operation string) {
	switch {
	case p < .19:
		f.Error = throttled
	case p < .21:
		f.Error = &ddbmem.Error{Code: "InternalServerError"}
	case p < .24 && strings.HasPrefix(operation, "Transact"):
		f.Error = &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}, {}}}
	case p < .24 && write:
		f.Error = &ddbmem.Error{Code: "TransactionConflictException"}
	case operation == "BatchGetItem":
		f.Unprocessed = 1 + h.luck.IntN(6)
	}
}

// partition is one that throttles until an instant (true time): it takes so many
// writes a second, and three times as many reads, one second's at once.
type partition struct {
	until     time.Time
	perSecond float64
	// left are the writes and the reads that it takes now, as of at.
	left [2]float64
	at   time.Time
}

// takes reports whether the partition takes a request at now.
func (p *partition) takes(write bool, now time.Time) bool {
	if now.After(p.until) {
		return true
	}
	for i, rate := range []float64{p.perSecond, 3 * p.perSecond} {
		p.left[i] = min(rate, p.left[i]+rate*now.Sub(p.at).Seconds())
	}
	p.at = now
	left := &p.left[1]
	if write {
		left = &p.left[0]
	}
	if *left < 1 {
		return false
	}
	*left--
	return true
}

// isThrottled reports whether a request is of a bucket whose partition does not take
// it; h.mu must be held.
func (h *history) isThrottled(body []byte, write bool) bool {
	for entity, p := range h.throttled {
		if bytes.Contains(body, []byte(`"ENTITY#`+entity+`"`)) && !p.takes(write, time.Now()) {
			return true
		}
	}
	return false
}
