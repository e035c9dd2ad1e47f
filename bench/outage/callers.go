package outage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
)

const (
	resource  = "model"
	limitName = "rpm"
)

func entity(i int) string { return fmt.Sprintf("user-%d", i) }

// callers call again and again, and note what they see of an outage.
type callers struct {
	limiter *dynalimit.RateLimiter
	group   sync.WaitGroup

	mu         sync.Mutex
	began      time.Time // of the outage, zero before it and after
	used       int64     // tokens admitted
	first      time.Duration
	rest       latency.Histogram
	failed     int
	unhelpful  int // failures without RetryAfter
	firstError error
}

// start lets n callers go until ctx ends.
func (c *callers) start(ctx context.Context, s settings) {
	for i := range s.callers {
		c.group.Go(func() {
			// What a caller needs it has: its garbage would be collected in the time
			// that is measured.
			who, one, lasting := entity(i%s.buckets), dynalimit.Amounts{limitName: 1}, context.WithoutCancel(ctx)
			pause(ctx, rand.N(s.every))
			next := time.NewTicker(s.every)
			defer next.Stop()
			for met := false; ctx.Err() == nil; {
				began := time.Now()
				_, err := c.limiter.Acquire(lasting, who, resource, one)
				met = c.note(time.Since(began), err, met)
				select {
				case <-next.C:
				case <-ctx.Done():
				}
			}
		})
	}
}

// note enters a call; met says that the caller has met the outage before, and it
// reports whether it has now.
func (c *callers) note(took time.Duration, err error, met bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.used++
	}
	if c.began.IsZero() {
		c.miss(err)
		return false
	}
	if !met {
		c.first = max(c.first, took)
	} else {
		c.rest.Record(took)
	}
	c.miss(err)
	return true
}

// miss counts a call that failed.
func (c *callers) miss(err error) {
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

// outage tells when the outage began, or with the zero time that it has ended.
func (c *callers) outage(began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = began
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
