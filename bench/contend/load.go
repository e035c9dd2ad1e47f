package contend

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
	"github.com/dynalimit/dynalimit/observe"
)

// task is the work of one limiter.
type task struct {
	Settings settings `json:"settings"`
	Endpoint string   `json:"endpoint"`
	// First is the number of the limiter's first goroutine, counted over all limiters.
	First int `json:"first"`
}

// tally counts the calls and writes of limiters.
type tally struct {
	Granted    int64          `json:"granted"`
	Failed     int64          `json:"failed"`
	FirstError string         `json:"first_error,omitempty"`
	Latency    latency.Counts `json:"latency"`
	// Landed are the landed writes, and Callers the calls that they served.
	Landed  int64 `json:"landed"`
	Callers int64 `json:"callers"`
}

// plus returns the sum of two tallies, with merged latencies and the first error of either.
func (t tally) plus(o tally) tally {
	took := latency.Import(t.Latency)
	took.Add(latency.Import(o.Latency))
	if t.FirstError == "" {
		t.FirstError = o.FirstError
	}
	return tally{t.Granted + o.Granted, t.Failed + o.Failed, t.FirstError, took.Export(), t.Landed + o.Landed, t.Callers + o.Callers}
}

// load calls one limiter from many goroutines.
type load struct {
	task
	asker           asker
	landed, callers atomic.Int64

	mu  sync.Mutex
	sum tally
}

// newLoad opens a limiter of this library on client and checks every bucket once, so that each process starts
// with a warm cache. It takes no tokens.
func newLoad(ctx context.Context, client dynalimit.DynamoDB, t task) (*load, error) {
	l := &load{task: t}
	limiter, _, err := subject.Open(client, &dynalimit.Options{Observer: observe.Observer{WriteEnd: l.writeEnd}, Prefetch: t.Settings.Prefetch})
	if err != nil {
		return nil, err
	}
	for b := range t.Settings.Buckets {
		if _, err := limiter.Check(ctx, subject.Entity(b), subject.Resource, nil); err != nil {
			return nil, err
		}
	}
	l.asker = ours{limiter, t.Settings.Call == "wait"}
	return l, nil
}

// writeEnd counts a landed write and its callers. It ignores other outcomes.
func (l *load) writeEnd(_ context.Context, e observe.WriteEnd) {
	if e.Outcome == "landed" {
		l.landed.Add(1)
		l.callers.Add(int64(e.Callers))
	}
}

// run makes all goroutines call for the time of the settings, or until ctx ends. It closes the
// asker and returns the tally.
func (l *load) run(ctx context.Context) (tally, error) {
	until, cancel := context.WithTimeout(ctx, l.Settings.For)
	defer cancel()
	var wg sync.WaitGroup
	for g := range l.Settings.Goroutines {
		wg.Go(func() { l.callRepeatedly(ctx, until, l.First+g) })
	}
	wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum.Landed, l.sum.Callers = l.landed.Load(), l.callers.Load()
	closing, cancelClose := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancelClose()
	return l.sum, l.asker.close(closing)
}

// callRepeatedly makes calls until the context until ends: each after the last, or at its share of the offered
// load. With an offered load, a call's time counts from its due instant. number is that of the goroutine. At
// the end it adds its tally to l.sum.
func (l *load) callRepeatedly(ctx, until context.Context, number int) {
	s := l.Settings
	var sum tally
	took := latency.New()
	mean := 0.0
	if s.Load > 0 {
		mean = float64(s.Processes*s.Goroutines) / s.Load * float64(time.Second)
	}
	due := time.Now()
	for until.Err() == nil {
		if mean > 0 {
			due = due.Add(time.Duration(rand.ExpFloat64() * mean))
			if !program.Pause(until, time.Until(due)) {
				break
			}
		} else {
			due = time.Now()
		}
		wait := l.call(ctx, until, subject.Entity(number%s.Buckets), &sum, func() { took.Record(time.Since(due)) })
		if wait > 0 && mean == 0 && !program.Pause(until, wait) {
			break
		}
	}
	sum.Latency = took.Export()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum = l.sum.plus(sum)
}

// call makes one call for the entity id, counts a grant or a failure in sum, and calls granted for a grant. A
// call that its context ended counts as neither. It returns the pause before the next call: about the retry
// time after a denial, 10 ms after a failure, else 0.
func (l *load) call(ctx, until context.Context, id string, sum *tally, granted func()) time.Duration {
	if l.Settings.Call == "wait" {
		ctx = until
	}
	denied, rest, err := l.asker.ask(ctx, id)
	switch {
	case denied:
		return rest + rand.N(rest/10+time.Millisecond)
	case err == nil:
		granted()
		sum.Granted++
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
	default:
		sum.Failed++
		if sum.FirstError == "" {
			sum.FirstError = err.Error()
		}
		return 10 * time.Millisecond
	}
	return 0
}
