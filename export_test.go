package dynalimit

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/config"
)

// Desk is where the limiter's calls are made.
func (l *RateLimiter) Desk() *call.Desk { return l.desk }

// Held is the lease's state at each of its buckets, child first.
func (lease *Lease) Held() []call.Held {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.currentCall().Held()
}

// ReadConfig is the configuration in force, as a call has it, or read anew, and its limits.
func ReadConfig(ctx context.Context, r *Repository, key config.Key, anew bool) (found config.Found, limits []Limit, err error) {
	if anew {
		found.Resolved, err = r.configs.Reread(ctx, config.GivenKey{Key: key})
	} else {
		found, err = r.configs.Get(ctx, config.GivenKey{Key: key})
	}
	if err == nil && found.Limits != nil {
		for _, l := range found.Limits.Limits {
			limits = append(limits, limitOf(l.Name, l.Capacity, l.Rate))
		}
	}
	return found, limits, err
}
