package llm

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit"
)

// Waiter is a Limiter in whose line a call may stand, as that of a *dynalimit.RateLimiter is.
type Waiter interface {
	// Wait takes amounts as soon as they fit, as dynalimit.RateLimiter.Wait does.
	Wait(ctx context.Context, entity, resource string, amounts dynalimit.Amounts, opts ...dynalimit.AcquireOption) (*dynalimit.Lease, error)
}

// Pauser is a Limiter whose buckets can be paused, as those of a *dynalimit.RateLimiter can.
type Pauser interface {
	// Pause has nothing taken from a bucket for a while, as dynalimit.RateLimiter.Pause does.
	Pause(ctx context.Context, entity, resource string, d time.Duration, why string) error
}

// waitInLine stands in line for what was denied, if the call may and its turn can come in time. What it
// cannot wait for stays denied: also when the wait ends, which is before ctx does.
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

// longestWait leaves a tenth of the time until ctx's deadline, and 50 ms at least, to those who
// hear of a denial.
func longestWait(ctx context.Context, most time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return most
	}
	left := time.Until(deadline)
	return min(most, left-max(left/10, 50*time.Millisecond))
}
