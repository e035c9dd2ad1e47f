package dynalimit

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/inside"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/store"
)

// The suites of the whole limiter are in tests/. They reach its unexported state through package
// inside.
func init() {
	inside.Lanes = func(limiter any) *lane.Registry { return limiter.(*RateLimiter).desk.lanes }
	inside.Levels = func(lease any) []inside.Level { return lease.(*Lease).inside() }
	inside.Transactions = func(limiter any, wrap func(next inside.Transact) inside.Transact) {
		limiter.(*RateLimiter).desk.wrapTransactions(wrap)
	}
	inside.ReadConfig = func(ctx context.Context, repository any, entity, resource string, group, anew bool) (inside.Config, error) {
		return repository.(*Repository).insideConfig(ctx, config.GivenKey{Key: config.Key{Entity: entity, Resource: resource, Group: group}}, anew)
	}
}

func (lease *Lease) inside() []inside.Level {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.held().inside()
}

// inside shows the buckets of a charge.
func (c *charge) inside() []inside.Level {
	var levels []inside.Level
	for i := range c.levels {
		lv := &c.levels[i]
		levels = append(levels, inside.Level{
			Lane: lv.lane, Degraded: lv.degraded, Holdings: lv.holdings, Config: lv.cfg, Incarnation: &lv.incarnation, Last: lv.last.Reading,
			Charges: func(further map[string]int64) []plan.Signed {
				if further != nil {
					return amountsAt(lv.cfg, further)
				}
				return amountsAt(lv.cfg, c.request.amounts)
			},
		})
	}
	return levels
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

func (d *desk) wrapTransactions(wrap func(next inside.Transact) inside.Transact) {
	next := d.transact
	send := wrap(func(ctx context.Context, items []types.TransactWriteItem, token string, slot int) (ddb.Verdict, map[int]*schema.Image, error) {
		return next(ctx, &store.Transaction{Items: items, Token: token}, slot)
	})
	d.transact = func(ctx context.Context, t *store.Transaction, slot int) (ddb.Verdict, map[int]*schema.Image, error) {
		return send(ctx, t.Items, t.Token, slot)
	}
}
