package dynalimit

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// What internal/laws sees of a limiter: its Inside says what for.

// Lanes are the limiter's.
func (l *RateLimiter) Lanes() *lane.Registry { return l.desk.lanes }

// ownLimits are the limiter's own, Options.Limits.
func (l *RateLimiter) ownLimits() []Limit {
	if l.desk.routes.fallback == nil {
		return nil
	}
	return l.desk.routes.fallback.limits
}

// transact is how a limiter sends a transaction.
type transact = func(ctx context.Context, items []types.TransactWriteItem, token string, slot int) (ddb.Verdict, map[int]*schema.Image, error)

// wrappedTransactions is a store whose transactions are sent by another.
type wrappedTransactions struct {
	transactor
	send transact
}

func (s wrappedTransactions) transactBuckets(ctx context.Context, t *bucketTransaction, slot int) (ddb.Verdict, map[int]*schema.Image, error) {
	return s.send(ctx, t.items, t.token, slot)
}

// WrapTransactions puts wrap around the sending of transactions.
func (l *RateLimiter) WrapTransactions(wrap func(next transact) transact) {
	next := l.desk.store
	l.desk.store = wrappedTransactions{next, wrap(func(ctx context.Context, items []types.TransactWriteItem, token string, slot int) (ddb.Verdict, map[int]*schema.Image, error) {
		return next.transactBuckets(ctx, &bucketTransaction{items: items, token: token}, slot)
	})}
}

// ConfigInForce reads what limits an entity now: its fingerprint and limits.
func ConfigInForce(ctx context.Context, r *Repository, entity, resource string) (fingerprint string, limits []Limit, err error) {
	c, err := r.rereadConfig(ctx, entity, resource)
	if err != nil {
		return "", nil, err
	}
	if c.compiled == nil {
		return "", nil, nil
	}
	return string(c.compiled.Fingerprint), c.limits, nil
}

// leaseLevel is what laws.Level describes.
type leaseLevel struct {
	Entity   string
	Degraded bool
	Charges  func(Amounts) []plan.Signed
	Holdings func() []backlog.Holding
}

// Levels are the buckets that the lease charges.
func (lease *Lease) Levels() []leaseLevel {
	var levels []leaseLevel
	for i := range lease.charge.levels {
		lv := &lease.charge.levels[i]
		levels = append(levels, leaseLevel{
			Entity: lv.lane.Entity, Degraded: lv.degraded,
			Charges:  func(amounts Amounts) []plan.Signed { return amountsAt(lv.cfg, amounts) },
			Holdings: func() []backlog.Holding { return lv.holdings },
		})
	}
	return levels
}
