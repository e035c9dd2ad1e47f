package llm

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit"
)

// Waiter is a Limiter with a waiting line, as *dynalimit.RateLimiter has.
type Waiter interface {
	// Wait takes amounts as soon as they fit, as dynalimit.RateLimiter.Wait does.
	Wait(ctx context.Context, entity, resource string, amounts dynalimit.Amounts, opts ...dynalimit.AcquireOption) (*dynalimit.Lease, error)
}

// Pauser is a Limiter with buckets that can be paused, as *dynalimit.RateLimiter has.
type Pauser interface {
	// Pause stops takes from a bucket for a while, as dynalimit.RateLimiter.Pause does.
	Pause(ctx context.Context, entity, resource string, d time.Duration, why string) error
}

// waitInLine waits for n's amounts, up to r.Wait and ending before ctx's deadline, and returns the lease. It
// returns the given denial at once if its retry time is longer or unknown, and afterwards if the wait ends
// without tokens.
func waitInLine(ctx context.Context, limiter Waiter, r Request, n need, denial error, opts []dynalimit.AcquireOption) (*dynalimit.Lease, error) {
	until, ok := dynalimit.RetryAfter(denial)
	most := longestWait(ctx, r.Wait)
	if !ok || until > most {
		return nil, denial
	}
	line, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	lease, err := limiter.Wait(line, r.Entity, r.Resource, n.estimate, opts...)
	if err != nil && line.Err() != nil && ctx.Err() == nil {
		return nil, denial
	}
	return lease, err
}

// longestWait returns most, or less if ctx's deadline is near: a tenth of the remaining time, at least 50 ms,
// stays to handle a denial. It may be negative.
func longestWait(ctx context.Context, most time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return most
	}
	left := time.Until(deadline)
	return min(most, left-max(left/10, 50*time.Millisecond))
}
