package outage

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
)

// callers call again and again, and record the effects of an outage.
type callers struct {
	limiter *dynalimit.RateLimiter
	group   sync.WaitGroup

	mu         sync.Mutex
	began      time.Time // of the outage; zero before and after it
	used       int64     // tokens admitted
	first      time.Duration
	rest       latency.Histogram
	failed     int
	unhelpful  int // failures without RetryAfter
	firstError error
}

// startCallers starts s.callers goroutines. Each acquires a token every s.every until ctx ends. c.group
// waits for them.
func (c *callers) startCallers(ctx context.Context, s settings) {
	for i := range s.callers {
		c.group.Go(func() {
			// A caller allocates nothing more here. Otherwise its garbage would be collected within the
			// measured time.
			who, lasting := subject.Entity(i%s.buckets), context.WithoutCancel(ctx)
			program.Pause(ctx, rand.N(s.every))
			next := time.NewTicker(s.every)
			defer next.Stop()
			for met := false; ctx.Err() == nil; {
				began := time.Now()
				_, err := c.limiter.Acquire(lasting, who, subject.Resource, subject.One)
				met = c.recordCall(time.Since(began), err, met)
				select {
				case <-next.C:
				case <-ctx.Done():
				}
			}
		})
	}
}

// recordCall counts a call as used or failed and, within the outage, records its duration took. The argument
// met tells that the caller has already made a call in this outage. It returns true if the call was in the
// outage.
func (c *callers) recordCall(took time.Duration, err error, met bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.used++
	}
	if c.began.IsZero() {
		c.countFailure(err)
		return false
	}
	if !met {
		c.first = max(c.first, took)
	} else {
		c.rest.Record(took)
	}
	c.countFailure(err)
	return true
}

// countFailure counts a failed call, and separately one without a retry time. nil counts nothing. It keeps the
// first error, and prefers an error other than an outage. The caller holds c.mu.
func (c *callers) countFailure(err error) {
	if err == nil {
		return
	}
	c.failed++
	if _, ok := dynalimit.RetryAfter(err); !ok {
		c.unhelpful++
	}
	if c.firstError == nil || errors.Is(c.firstError, dynalimit.ErrUnavailable) && !errors.Is(err, dynalimit.ErrUnavailable) {
		c.firstError = err
	}
}

// setOutage sets the start of the outage, or the zero time for its end.
func (c *callers) setOutage(began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = began
}
