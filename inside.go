package dynalimit

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/inside"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// The suites of the whole limiter are in tests/. They reach its unexported state through package
// inside.
func init() {
	inside.Lanes = func(limiter any) *lane.Registry { return limiter.(*RateLimiter).desk.Lanes }
	inside.Levels = func(lease any) []inside.Level { return lease.(*Lease).inside() }
	inside.Transactions = func(limiter any, wrap func(next inside.Transact) inside.Transact) {
		limiter.(*RateLimiter).desk.WrapTransactions(wrap)
	}
	inside.ReadConfig = func(ctx context.Context, repository any, entity, resource string, group, anew bool) (inside.Config, error) {
		return repository.(*Repository).insideConfig(ctx, config.GivenKey{Key: config.Key{Entity: entity, Resource: resource, Group: group}}, anew)
	}
}

func (lease *Lease) inside() []inside.Level {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.held().Inside()
}

func (r *Repository) insideConfig(ctx context.Context, key config.GivenKey, anew bool) (shown inside.Config, err error) {
	var found config.Found
	if anew {
		found.Resolved, err = r.configs.Reread(ctx, key)
	} else {
		found, err = r.configs.Get(ctx, key)
	}
	if err != nil {
		return inside.Config{}, err
	}
	c := found.Resolved
	shown = inside.Config{OnUnavailable: UnavailablePolicy(c.OnUnavailable), Source: c.Source, ParentID: c.ParentID, Cascade: c.Cascade, ReadAt: c.ReadAt, Bucket: found.Bucket, Read: found.Read}
	var limits []Limit
	if c.Limits != nil {
		shown.Fingerprint = string(c.Limits.Fingerprint)
		for _, l := range c.Limits.Limits {
			limits = append(limits, limitOf(l.Name, l.Capacity, l.Rate))
		}
	}
	shown.Limits = limits
	return shown, nil
}
