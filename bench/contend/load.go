package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// The buckets' limit and resource.
const (
	limitName = "calls"
	resource  = "model"
)

func entity(bucket int) string { return fmt.Sprintf("entity-%d", bucket) }

// task is what one limiter is to do.
type task struct {
	Settings settings `json:"settings"`
	Table    string   `json:"table"`
	Endpoint string   `json:"endpoint"`
	// First is the number of the limiter's first goroutine among all.
	First int `json:"first"`
}

// tally is what one limiter did.
type tally struct {
	Granted    int64          `json:"granted"`
	Denied     int64          `json:"denied"`
	FromMemory int64          `json:"from_memory"`
	Failed     int64          `json:"failed"`
	FirstError string         `json:"first_error,omitempty"`
	Latency    latency.Counts `json:"latency"`
	Writes     writes         `json:"writes"`
}

// writes are a limiter's decided writes by outcome, and the requests and callers
// they had.
type writes struct {
	Landed  int64 `json:"landed"`
	Refused int64 `json:"refused"`
	Other   int64 `json:"other"`
	Tries   int64 `json:"tries"`
	Callers int64 `json:"callers"`
}

func (w writes) plus(o writes) writes {
	return writes{w.Landed + o.Landed, w.Refused + o.Refused, w.Other + o.Other, w.Tries + o.Tries, w.Callers + o.Callers}
}

// load calls one limiter from many goroutines.
type load struct {
	task
	limiter *dynalimit.RateLimiter
	watch   *watch
	granted atomic.Int64

	mu   sync.Mutex
	sum  tally
	hist latency.Histogram
}

func newLoad(client dynalimit.DynamoDB, t task) (*load, error) {
	repo, err := dynalimit.NewRepository(client, t.Table, &dynalimit.RepositoryOptions{Principal: "bench"})
	if err != nil {
		return nil, err
	}
	w := &watch{}
	limiter, err := dynalimit.New(repo, &dynalimit.Options{Observer: w})
	if err != nil {
		return nil, err
	}
	return &load{task: t, limiter: limiter, watch: w, hist: latency.New()}, nil
}

// warm reads the configuration and the bucket, so that the start finds every
// limiter alike.
func (l *load) warm(ctx context.Context) error {
	for b := range l.Settings.Buckets {
		if _, err := l.limiter.Check(ctx, entity(b), resource, nil); err != nil {
			return err
		}
	}
	return nil
}

// run calls until the time is over or ctx ends, and returns what was done when
// all has landed.
func (l *load) run(ctx context.Context) (tally, error) {
	until, cancel := context.WithTimeout(ctx, l.Settings.For)
	defer cancel()
	var wg sync.WaitGroup
	for g := range l.Settings.Goroutines {
		wg.Go(func() { l.goroutine(ctx, until, l.First+g) })
	}
	wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum.Latency, l.sum.Writes, l.sum.FromMemory = l.hist.Export(), l.watch.writes(), l.watch.fromMemory.Load()
	closing, cancelClose := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancelClose()
	return l.sum, l.limiter.Close(closing)
}

// goroutine calls in a closed loop, or by its share of the offered load: then a
// call's time counts from when it was due.
func (l *load) goroutine(ctx, until context.Context, number int) {
	s := l.Settings
	id := entity(number % s.Buckets)
	var sum tally
	hist := latency.New()
	mean := 0.0
	if s.Load > 0 {
		mean = float64(s.callers()*s.Goroutines) / s.Load * float64(time.Second)
	}
	due := time.Now()
	for until.Err() == nil {
		if mean > 0 {
			due = due.Add(time.Duration(rand.ExpFloat64() * mean))
			if !ddb.Sleep(until, time.Until(due)) {
				break
			}
		} else {
			due = time.Now()
		}
		wait := l.call(ctx, until, id, &sum, func() { hist.Record(time.Since(due)) })
		if wait > 0 && mean == 0 && !ddb.Sleep(until, wait) {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hist.Add(hist)
	l.sum.Granted += sum.Granted
	l.sum.Denied += sum.Denied
	l.sum.Failed += sum.Failed
	if l.sum.FirstError == "" {
		l.sum.FirstError = sum.FirstError
	}
}

// call makes one call and returns how long to rest after a denial.
func (l *load) call(ctx, until context.Context, id string, sum *tally, granted func()) time.Duration {
	amounts := dynalimit.Amounts{limitName: l.Settings.Amount}
	var err error
	if l.Settings.Call == "wait" {
		_, err = l.limiter.Wait(until, id, resource, amounts)
	} else {
		_, err = l.limiter.Acquire(ctx, id, resource, amounts)
	}
	var denial *dynalimit.LimitExceededError
	switch {
	case err == nil:
		granted()
		sum.Granted++
		l.granted.Add(1)
	case errors.As(err, &denial):
		sum.Denied++
		return denial.RetryAfter + rand.N(denial.RetryAfter/10+time.Millisecond)
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

// watch counts a limiter's writes and denials from memory.
type watch struct {
	dynalimit.NopObserver
	landed, refused, other, tries, callers atomic.Int64
	fromMemory                             atomic.Int64
}

// AcquireEnd counts a denial from memory.
func (w *watch) AcquireEnd(_ context.Context, e dynalimit.AcquireEnd) {
	if e.FromMemory {
		w.fromMemory.Add(1)
	}
}

// WriteEnd counts a write.
func (w *watch) WriteEnd(_ context.Context, e dynalimit.WriteEnd) {
	w.tries.Add(int64(e.Tries))
	switch e.Outcome {
	case "landed":
		w.landed.Add(1)
		w.callers.Add(int64(e.Callers))
	case "refused":
		w.refused.Add(1)
	default:
		w.other.Add(1)
	}
}

func (w *watch) writes() writes {
	return writes{w.landed.Load(), w.refused.Load(), w.other.Load(), w.tries.Load(), w.callers.Load()}
}
