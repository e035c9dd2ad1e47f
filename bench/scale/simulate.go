package scale

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/smithy-go"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/ledger"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/observe"
)

// bucketKey occurs in a batch of reads that includes the bucket.
var bucketKey = []byte(`"` + schema.NewKeys("").Bucket(subject.Entity(0), subject.Resource).SK + `"`)

// exempt marks the simulation's own requests, which take no time and no units.
type exempt struct{}

// world is the shared part of the processes.
type world struct {
	settings
	db *ddbmem.DB

	mu            sync.Mutex
	writes, reads *partition
	processes     []*process
	counting      bool
	counts        counts
	granted       latency.Histogram
	errors        map[string]int64
}

// process is the limiter of one simulated process.
type process struct {
	limiter *dynalimit.RateLimiter
	// offered and granted count its calls in the measured time. The world's lock guards them.
	offered, granted int64
}

// counts are the outcomes of the calls that came in the measured time.
type counts struct {
	offered, granted, denied, failed int64
	// served counts grants from prefetched tokens, which needed no request. grants counts all grants that
	// ended in the measured time.
	served, grants int64
}

// simulate runs a fleet of processes on one bucket, and reports the time after the warm-up. In a
// synctest bubble it runs in virtual time.
func simulate(ctx context.Context, s settings) (*report, error) {
	w := &world{
		settings: s, db: ddbmem.New(),
		writes: newPartition(s.partition, s.holds, time.Now()), reads: newPartition(s.reads, s.holds, time.Now()),
		granted: latency.New(), errors: map[string]int64{},
	}
	defer w.db.Close()
	w.db.SetFaults(w.fault)
	own := context.WithValue(ctx, exempt{}, true)
	if err := w.prepare(own); err != nil {
		return nil, err
	}
	end := time.Now().Add(s.warmUp + s.lasting)
	var processes sync.WaitGroup
	for range s.processes {
		p, err := w.startProcess()
		if err != nil {
			return nil, err
		}
		w.processes = append(w.processes, p)
		processes.Go(func() { w.offerCalls(ctx, p, end) })
	}
	pause(s.warmUp)
	before, err := subject.Read(own, w.db.Client(), 1)
	if err != nil {
		return nil, err
	}
	from, meter := time.Now(), w.db.Meter()
	w.mu.Lock()
	w.counting = true
	w.writes.reset()
	w.reads.reset()
	w.mu.Unlock()

	pause(s.lasting)
	after, err := subject.Read(own, w.db.Client(), 1)
	if err != nil {
		return nil, err
	}
	account, err := ledger.Sum(before, after, from.UnixMilli(), time.Now().UnixMilli())
	w.mu.Lock()
	used := usage{w.db.Meter().Sub(meter), *w.writes, *w.reads}
	w.mu.Unlock()
	processes.Wait() // calls that came in time end normally
	if err != nil {
		return nil, err
	}
	return w.newReport(account, used), nil
}

// fault returns the latency of a request each way, and takes a unit of the bucket's partition. If that
// throttles, the request fails, or a batch of reads leaves its item unprocessed. The simulation's own requests
// pass at once.
func (w *world) fault(r *ddbmem.Request) ddbmem.Fault {
	if r.Context.Value(exempt{}) != nil {
		return ddbmem.Fault{}
	}
	f := ddbmem.Fault{Before: w.randomLatency(), After: w.randomLatency()}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r.Operation {
	case "UpdateItem", "PutItem":
		if !w.writes.take(1, time.Now()) {
			f.Error = &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}
		}
	case "GetItem":
		if !w.reads.take(1, time.Now()) {
			f.Error = &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}
		}
	case "BatchGetItem":
		if bytes.Contains(r.Body, bucketKey) && !w.reads.take(1, time.Now()) {
			f.Unprocessed = 1
		}
	}
	return f
}

// randomLatency draws the time that a request or its answer is on its way: half of the latency, with the
// spread.
func (w *world) randomLatency() time.Duration {
	return time.Duration(float64(w.latency) / 2 * (1 - w.spread + 2*w.spread*rand.Float64()))
}

// prepare makes the table, the limit and the bucket: empty, full after a call that was given back, or three
// fifths full.
func (w *world) prepare(ctx context.Context) error {
	taken := map[string]int64{"empty": w.burst, "part": w.burst * 2 / 5}[w.start]
	return subject.CreateBuckets(ctx, w.db.Client(), dynalimit.PerSecond(subject.Limit, w.rate).WithBurst(w.burst), 1, taken)
}

// startProcess opens the limiter of one simulated process.
func (w *world) startProcess() (*process, error) {
	limiter, _, err := subject.Open(w.db.Client(), &dynalimit.Options{Observer: observe.Observer{AcquireEnd: w.acquireEnd}, Timeout: w.timeout, Prefetch: w.prefetch})
	return &process{limiter: limiter}, err
}

// offerCalls offers calls of one process at random instants until end. Then it waits for them and closes the
// limiter.
func (w *world) offerCalls(ctx context.Context, p *process, end time.Time) {
	var calls sync.WaitGroup
	mean := float64(time.Second) / w.each
	for {
		pause(time.Duration(rand.ExpFloat64() * mean))
		if !time.Now().Before(end) {
			break
		}
		calls.Go(func() { w.oneCall(ctx, p) })
	}
	calls.Wait()
	if err := p.limiter.Close(ctx); err != nil {
		w.countError(err)
	}
}

// oneCall makes one call and, if it began after the warm-up, records its outcome: granted with its time,
// denied, or failed. A deadline counts as denied. It takes w.mu.
func (w *world) oneCall(ctx context.Context, p *process) {
	w.mu.Lock()
	counted := w.counting
	w.mu.Unlock()
	came := time.Now()
	err := w.ask(ctx, p.limiter)
	took := time.Since(came)
	if !counted {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.offered++
	p.offered++
	switch {
	case err == nil:
		p.granted++
		w.counts.granted++
		w.granted.Record(took)
	case errors.Is(err, dynalimit.ErrLimitExceeded) || errors.Is(err, context.DeadlineExceeded):
		w.counts.denied++
	default:
		w.counts.failed++
		w.errors[cause(err)]++
	}
}

// ask makes one call in the way w.call: Wait, one Acquire, or Acquire again after each denial.
// Waits and repetitions end after w.patience.
func (w *world) ask(ctx context.Context, p *dynalimit.RateLimiter) error {
	if w.call == "wait" {
		ctx, cancel := context.WithTimeout(ctx, w.patience)
		defer cancel()
		_, err := p.Wait(ctx, subject.Entity(0), subject.Resource, subject.One)
		return err
	}
	deadline := time.Now().Add(w.patience)
	for {
		_, err := p.Acquire(ctx, subject.Entity(0), subject.Resource, subject.One)
		var denial *dynalimit.LimitExceededError
		if w.call == "acquire" || !errors.As(err, &denial) {
			return err
		}
		wait := denial.RetryAfter + rand.N(50*time.Millisecond)
		if time.Now().Add(wait).After(deadline) {
			return err
		}
		pause(wait)
	}
}

// countError counts an error by its cause. It takes w.mu.
func (w *world) countError(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors[cause(err)]++
}

// cause returns the code of an API error, or the text of any other error.
func cause(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return err.Error()
}

// acquireEnd counts the grants in the measured time, and those from memory. It takes w.mu.
func (w *world) acquireEnd(_ context.Context, e observe.AcquireEnd) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.counting || e.Err != nil {
		return
	}
	w.counts.grants++
	if e.FromMemory {
		w.counts.served++
	}
}

// pause waits for d. In a synctest bubble that is virtual time.
func pause(d time.Duration) { <-time.After(d) }
