package dynalimit

import (
	"context"
	"sync"

	"github.com/dynalimit/dynalimit/internal/bookkeeping"
	"github.com/dynalimit/dynalimit/internal/schema"
)

func init() {
	bookkeeping.Limiter = func(limiter any) any { return limiter.(*RateLimiter).bookkeeping() }
}

// ownCounters holds the limiter of this project's own counters, which the first use makes.
type ownCounters struct {
	mu      sync.Mutex
	limiter *RateLimiter
}

// bookkeeping returns the limiter of this project's own counters, in the same table and
// namespace. It takes limits from its calls alone, and has no observer.
func (l *RateLimiter) bookkeeping() *RateLimiter {
	if l.repo == nil {
		return l // each of its calls fails
	}
	l.own.mu.Lock()
	defer l.own.mu.Unlock()
	if l.own.limiter == nil {
		o := Options{Timeout: l.desk.timeout, CleanupTimeout: l.desk.cleanup, Logger: l.log}
		if l.desk.ownClock {
			o.Now = l.desk.clock
		}
		own, err := New(l.repo.options.connect(l.repo.given, l.repo.table, schema.OwnKeys(l.repo.keys.Name())), &o)
		if err != nil { // New has accepted each of these options before
			panic(err)
		}
		l.own.limiter = own
	}
	return l.own.limiter
}

// close closes the limiter of this project's own counters, if there is one.
func (o *ownCounters) close(ctx context.Context) error {
	o.mu.Lock()
	own := o.limiter
	o.mu.Unlock()
	if own == nil {
		return nil
	}
	return own.Close(ctx)
}
