package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Buckets are the buckets of a table. Reading one decides nothing.
type Buckets struct{ d *desk }

// BucketRefill is the result of Buckets.Reset or Buckets.TopUp.
type BucketRefill struct {
	// ID names the operation: the one given, or the one drawn.
	ID string
	// At is when it was done.
	At time.Time
	// Repeated means that the operation had been done before: nothing was done this
	// time, and the other fields have the first result.
	Repeated bool
	// Missing means that the bucket does not exist, so that nothing was done: the first
	// acquire makes it full.
	Missing bool
	// Estimated means that other processes kept taking from the bucket, so that the change was
	// made without stopping them: Before is from a read just before,
	// and neither number includes takes between the read and the change.
	Estimated bool
	// Before has the tokens of the filled, or already full, limits before, by their
	// names, in whole tokens rounded down; negative in debt.
	Before dynalimit.Amounts
	// After has their tokens afterwards, likewise.
	After dynalimit.Amounts
}

// Reset makes limits of a bucket full now, all if none are named, and ends their debt.
// Counters and leases stay as they are: later give-backs of leases do not fill a limit
// beyond full. A calendar quota keeps a grant above its amount, and later
// give-backs are added to it. A missing bucket stays missing, because it is full when it is made.
//
// The id names the operation among those of the entity: letters, digits and
// _ . - : @ /, starting with a letter or digit, at most 128; "" draws one. It is done once
// however often it is repeated under its id, for 30 days: a repetition returns the first
// result.
//
// Limiters on this Repository use the tokens at once. Those of other processes may deny from
// memory for a second, and their waiters look again within a configuration's TTL. Prefetched
// tokens of processes stay theirs.
//
// It fails with a *ValidationError, before anything is written, for a limit that the
// bucket does not have and for an id of another operation. It fails with
// ErrUnavailable if the table does not answer or other writers were first each time: if
// that is unconfirmed, repeat it with the same id.
func (b Buckets) Reset(ctx context.Context, entity, resource, id string, limits ...string) (*BucketRefill, error) {
	for _, name := range limits {
		if reason := schema.LimitRule.Check(name); reason != "" {
			return nil, invalid("limits", "limit name %s", reason)
		}
	}
	return b.applyRefill(ctx, &refill{action: "bucket_reset", id: id, entity: entity, resource: resource, limits: limits})
}

// TopUp adds whole tokens to limits of a bucket, at most up to their bursts. A debt
// is paid first: a limit at -30 of 100 holds 20 after 50 were added. Counters stay as they
// are. See Buckets.Reset for repetitions, other processes and errors.
func (b Buckets) TopUp(ctx context.Context, entity, resource, id string, amounts dynalimit.Amounts) (*BucketRefill, error) {
	return b.addTokens(ctx, &refill{action: "bucket_topped_up", id: id, entity: entity, resource: resource}, amounts)
}

// GrantWindow adds whole tokens to calendar quotas of a bucket, also above their amounts, for
// the current window: the next one begins with the quota's amount, less a debt.
// Counters stay as they are. It fails with a *ValidationError for a limit that is not a quota. A
// missing bucket stays missing (Missing): the first call makes it. See
// Buckets.Reset for repetitions, other processes and errors.
func (b Buckets) GrantWindow(ctx context.Context, entity, resource, id string, amounts dynalimit.Amounts) (*BucketRefill, error) {
	return b.addTokens(ctx, &refill{action: "bucket_granted", id: id, entity: entity, resource: resource, grant: true}, amounts)
}

// addTokens validates amounts, in whole tokens, sets them in r in millitokens, and applies r. The caller sets
// all other fields of r.
func (b Buckets) addTokens(ctx context.Context, r *refill, amounts dynalimit.Amounts) (*BucketRefill, error) {
	if err := b.d.Usable(ctx); err != nil {
		return nil, err
	}
	if err := b.d.CheckAmounts(amounts); err != nil {
		return nil, err
	}
	r.add = make(map[string]int64, len(amounts))
	for name, n := range amounts {
		r.add[name] = n * milli
	}
	r.limits = slices.Collect(maps.Keys(r.add))
	return b.applyRefill(ctx, r)
}

// applyRefill validates and applies a reset, a top-up or a grant, and returns the tokens before and after, in
// whole tokens. It first converts the bucket from the older layout. After the request limiters of this
// repository read the bucket again, also if it failed.
func (b Buckets) applyRefill(ctx context.Context, r *refill) (*BucketRefill, error) {
	if err := cmp.Or(checkEntityID("entity", r.entity), checkResource(r.resource)); err != nil {
		return nil, err
	}
	if r.id != "" {
		if reason := schema.CheckOperation(r.id); reason != "" {
			return nil, invalid("id", "%s", reason)
		}
	}
	if err := b.d.checkChange(ctx); err != nil {
		return nil, err
	}
	if err := b.d.takeOverBucket(ctx, r.entity, r.resource); err != nil {
		return nil, err
	}
	defer b.d.Told.Refilled(r.entity, r.resource) // also where no answer came
	done, err := b.refillOnce(ctx, r)
	if err != nil {
		return nil, b.d.Layout.KindError("the bucket", err)
	}
	for _, held := range []dynalimit.Amounts{done.Before, done.After} {
		for name, milliTokens := range held {
			held[name] = floorDiv(milliTokens, milli)
		}
	}
	return &done, nil
}
