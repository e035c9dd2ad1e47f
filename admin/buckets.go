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

// BucketRefill is what Buckets.Reset or Buckets.TopUp came to.
type BucketRefill struct {
	// ID names the operation: the one given, or the one drawn.
	ID string
	// At is when it was done.
	At time.Time
	// Repeated means that the operation had been done before: nothing was done this
	// time, and the rest is what it came to then.
	Repeated bool
	// Missing means that there is no bucket, so that nothing was to be done: the first
	// acquire makes it full.
	Missing bool
	// Estimated means that others kept taking from the bucket, so that the change was
	// made without stopping them: Before is what the bucket held at a look just before,
	// and what was taken between the look and the change is in neither number.
	Estimated bool
	// Before is what the limits that were filled, or were full already, held, by their
	// names, in whole tokens rounded down; negative in debt.
	Before dynalimit.Amounts
	// After is what they hold since, likewise.
	After dynalimit.Amounts
}

// Reset makes limits of a bucket full now, all if none are named, whatever they owe.
// Counters stay as they are, and so do leases: what they give back later fills nothing that
// is full. A calendar quota keeps what was granted to it above what it allows, and what is given
// back to it later is added. A bucket that does not exist is left so, since it is full when it is made.
//
// The id names the operation among those of the entity: letters, digits and
// _ . - : @ /, starting with a letter or digit, at most 128; "" draws one. It is done once
// however often it is repeated under its id, for 30 days: a repetition returns the first
// result.
//
// Limiters on this Repository use the tokens at once. Those of other processes may deny from
// memory for a second, and who waits there looks again within a configuration's TTL. Tokens
// that processes have debited ahead stay theirs.
//
// It fails with a *ValidationError, before anything is written, for a limit that the
// bucket does not have and for an id under which something else was done, and with
// ErrUnavailable when the table does not answer or others were in the way each time: if
// that is unconfirmed, repeat it with the same id.
func (b Buckets) Reset(ctx context.Context, entity, resource, id string, limits ...string) (*BucketRefill, error) {
	for _, name := range limits {
		if reason := schema.CheckLimitName(name); reason != "" {
			return nil, invalid("limits", "limit name %s", reason)
		}
	}
	return b.refill(ctx, &refill{action: "bucket_reset", id: id, entity: entity, resource: resource, limits: limits})
}

// TopUp adds whole tokens to limits of a bucket, at most up to their bursts. A debt
// is paid first: a limit at -30 of 100 holds 20 after 50 were added. Counters stay as they
// are. See Buckets.Reset for repetitions, other processes and errors.
func (b Buckets) TopUp(ctx context.Context, entity, resource, id string, amounts dynalimit.Amounts) (*BucketRefill, error) {
	return b.add(ctx, &refill{action: "bucket_topped_up", id: id, entity: entity, resource: resource}, amounts)
}

// GrantWindow adds whole tokens to calendar quotas of a bucket, above what they allow too, for
// the window that they are in: the next one begins with what the quota allows, less a debt.
// Counters stay as they are. It fails with a *ValidationError for a limit that is no quota. A
// bucket that does not exist is left so (Missing): it is made with the first call. See
// Buckets.Reset for repetitions, other processes and errors.
func (b Buckets) GrantWindow(ctx context.Context, entity, resource, id string, amounts dynalimit.Amounts) (*BucketRefill, error) {
	return b.add(ctx, &refill{action: "bucket_granted", id: id, entity: entity, resource: resource, grant: true}, amounts)
}

// add checks what is added, and makes the refill.
func (b Buckets) add(ctx context.Context, r *refill, amounts dynalimit.Amounts) (*BucketRefill, error) {
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
	return b.refill(ctx, r)
}

// refill checks and makes a refill, and says what it came to in tokens.
func (b Buckets) refill(ctx context.Context, r *refill) (*BucketRefill, error) {
	if err := cmp.Or(checkEntityID("entity", r.entity), checkResource(r.resource)); err != nil {
		return nil, err
	}
	if r.id != "" {
		if reason := schema.CheckOperation(r.id); reason != "" {
			return nil, invalid("id", "%s", reason)
		}
	}
	if err := b.d.mayChange(ctx); err != nil {
		return nil, err
	}
	if err := b.d.takeOverBucket(ctx, r.entity, r.resource); err != nil {
		return nil, err
	}
	defer b.d.Told.Refilled(r.entity, r.resource) // also where no answer came
	done, err := b.make(ctx, r)
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
