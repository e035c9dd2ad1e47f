package laws

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// weather decides the faults of requests.
type weather struct {
	mode    Mode
	oracle  *oracle
	settled atomic.Bool // no more faults

	mu   sync.Mutex // guards the fields below
	luck *rand.Rand // draws the failing requests
	late []chan struct{}
	// throttled are the throttling partitions, by entity.
	throttled map[string]*partition
	// silent is the instant until which the store answers nothing.
	silent time.Time
}

// randomFault draws the fault of a request: none after endFaults or with a context from Quietly, and only a
// delay in modes without faults. It records in the oracle which reads of configurations get no answer.
func (w *weather) randomFault(q *ddbmem.Request) ddbmem.Fault {
	if IsQuiet(q) || w.settled.Load() {
		return ddbmem.Fault{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.randomDelay()
	if !w.mode.faults {
		return f
	}
	write := isWrite(q.Operation)
	switch p, now := w.luck.Float64(), time.Now(); {
	case now.Before(w.silent) && p < .5:
		f.Drop = true
	case now.Before(w.silent):
		f.Before = time.Minute
	case (write || q.Operation == "GetItem") && w.isThrottled(q.Body, write):
		f.Error = Throttled
	case p < .16:
		w.setUnanswered(&f, p, write)
	case p < .35:
		w.setRefused(&f, p, write, q.Operation)
	}
	if q.Operation == "BatchGetItem" && (f.Error != nil || f.Lose || f.Drop || f.Before >= time.Minute) {
		w.oracle.recordUnread()
	}
	return f
}

// isWrite reports whether an operation of DynamoDB writes: an update, a put or a transaction.
func isWrite(operation string) bool {
	return strings.HasPrefix(operation, "Update") || strings.HasPrefix(operation, "Put") || strings.HasPrefix(operation, "Transact")
}

// randomDelay draws the flight times of a request. In a mode without latency it yields to other
// goroutines instead. w.mu must be held.
func (w *weather) randomDelay() (f ddbmem.Fault) {
	if w.mode.latency > 0 {
		f.Before = time.Duration(w.luck.Int64N(w.mode.latency)) * time.Millisecond
		f.After = time.Duration(w.luck.Int64N(w.mode.latency)) * time.Millisecond
		return f
	}
	for range w.luck.IntN(3) {
		runtime.Gosched() // let others queue
	}
	return f
}

// setUnanswered sets in f a fault that leaves the caller without an answer. The answer is lost, the request
// never lands, or a write waits for landLate; a read is throttled instead. The random number p, below 0.16,
// decides; w.mu must be held.
func (w *weather) setUnanswered(f *ddbmem.Fault, p float64, write bool) {
	switch {
	case p < .08:
		f.Lose = true
	case p < .11:
		f.Drop = true
	case write:
		late := make(chan struct{})
		w.late = append(w.late, late)
		f.Late = late
	default:
		f.Error = Throttled
	}
}

// setRefused sets in f an error answer of the store, for a batch of reads a partial answer, or nothing. The
// random number p, from 0.16 to 0.35, decides; w.mu must be held.
func (w *weather) setRefused(f *ddbmem.Fault, p float64, write bool, operation string) {
	switch {
	case p < .19:
		f.Error = Throttled
	case p < .21:
		f.Error = &ddbmem.Error{Code: "InternalServerError"}
	case p < .24 && strings.HasPrefix(operation, "Transact"):
		f.Error = &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}, {}}}
	case p < .24 && write:
		f.Error = &ddbmem.Error{Code: "TransactionConflictException"}
	case operation == "BatchGetItem":
		f.Unprocessed = 1 + w.luck.IntN(6)
	}
}

// partition is one that throttles until an instant of true time. It takes a number of writes a second, and
// three times as many reads, with a burst of one second.
type partition struct {
	until     time.Time
	perSecond float64
	// left are the writes and the reads that it takes now, as of at.
	left [2]float64
	at   time.Time
}

// useCapacity uses up the capacity that a request at now needs; false if the partition has too little. It is
// always true once the partition no longer throttles.
func (p *partition) useCapacity(write bool, now time.Time) bool {
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

// isThrottled reports whether a throttled partition that the request names has no capacity for it; otherwise it
// uses that capacity. w.mu must be held.
func (w *weather) isThrottled(body []byte, write bool) bool {
	for entity, p := range w.throttled {
		if bytes.Contains(body, []byte(`"ENTITY#`+entity+`"`)) && !p.useCapacity(write, time.Now()) {
			return true
		}
	}
	return false
}

// landLate lets one random request that setUnanswered delayed reach the store, in three of ten calls.
func (w *weather) landLate(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.late) > 0 && r.Float64() < .3 {
		i := r.IntN(len(w.late))
		close(w.late[i])
		w.late = slices.Delete(w.late, i, i+1)
	}
}

// throttlePartition gives the partition of an entity's bucket a capacity of 0 to 5 writes a second for up to 20
// s. It replaces an earlier throttling.
func (w *weather) throttlePartition(r *rand.Rand, entity string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &partition{until: time.Now().Add(time.Duration(r.Int64N(20_000)) * time.Millisecond), at: time.Now()}
	if p.perSecond = float64(r.IntN(6)); r.IntN(2) == 0 {
		p.perSecond = 0
	}
	w.throttled[entity] = p
}

// silenceStore makes the store answer nothing for up to 40 s from now: half of the requests are lost, the
// others arrive a minute late.
func (w *weather) silenceStore(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = time.Now().Add(time.Duration(r.Int64N(40_000)) * time.Millisecond)
}

// endFaults ends all faults and delays for good, and lets all late requests land.
func (w *weather) endFaults() {
	w.settled.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.late {
		close(c)
	}
	w.late = nil
}
