package admin

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Buckets are the buckets of a table. Reading one decides nothing.
type Buckets struct{ d *desk }

// ResetOptions says how Buckets.Reset fills a bucket. Every field is optional: nil and the
// zero value fill every limit, under an id that is drawn.
type ResetOptions struct {
	// ID names the operation among those of the entity: letters, digits and
	// _ . - : @ /, starting with a letter or digit, at most 128. With it the call may be
	// repeated, for 30 days: it is done once. Defaults to one that is drawn.
	ID string
	// Limits are the names of the limits that are made full. Defaults to all that the
	// bucket has.
	Limits []string
}

// TopUpOptions says how Buckets.TopUp fills a bucket. Every field is optional: nil and the
// zero value draw an id.
type TopUpOptions struct {
	// ID names the operation among those of the entity, as ResetOptions.ID does.
	// Defaults to one that is drawn.
	ID string
}

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
	// Limits are those that were filled, or were full already, in name order.
	Limits []LimitRefill
}

// LimitRefill is what a limit holds before and after.
type LimitRefill struct {
	// Name is the limit's.
	Name string
	// Before and After are what it holds, in whole tokens rounded down; negative in debt.
	Before, After int64
}

// Reset makes the limits of a bucket full now, whatever they owe. Counters stay as
// they are, and so do leases: what they give back later fills nothing that is full. A
// bucket that does not exist is left so, since it is full when it is made.
//
// It is done once however often it is repeated with the same ResetOptions.ID: a repetition
// returns the first result. Limiters on this Repository use the tokens at once. Those of
// other processes may deny from memory for a second, and who waits there looks again
// within a configuration's TTL. Tokens that processes have debited ahead stay theirs.
//
// It fails with a *ValidationError, before anything is written, for a limit that the
// bucket does not have and for an id under which something else was done, and with
// ErrUnavailable when the table does not answer or others were in the way each time: if
// that is unconfirmed, repeat it with the same id.
func (b Buckets) Reset(ctx context.Context, entity, resource string, opts *ResetOptions) (*BucketRefill, error) {
	var o ResetOptions
	if opts != nil {
		o = *opts
	}
	for _, name := range o.Limits {
		if reason := schema.CheckLimitName(name); reason != "" {
			return nil, invalid("options.Limits", "limit name %s", reason)
		}
	}
	return b.refillBucket(ctx, admin.Refill{ID: o.ID, Entity: entity, Resource: resource, Limits: o.Limits})
}

// TopUp adds whole tokens to limits of a bucket, at most up to their bursts. A debt
// is paid first: a limit at -30 of 100 holds 20 after 50 were added. Counters stay as they
// are. See Buckets.Reset for repetitions, other processes and errors.
func (b Buckets) TopUp(ctx context.Context, entity, resource string, amounts dynalimit.Amounts, opts *TopUpOptions) (*BucketRefill, error) {
	if err := b.d.repo.Usable(ctx); err != nil {
		return nil, err
	}
	if err := b.d.repo.CheckAmounts(amounts); err != nil {
		return nil, err
	}
	var o TopUpOptions
	if opts != nil {
		o = *opts
	}
	add := make(map[string]int64, len(amounts))
	for name, n := range amounts {
		add[name] = n * milli
	}
	return b.refillBucket(ctx, admin.Refill{ID: o.ID, Entity: entity, Resource: resource, Add: add})
}

func (b Buckets) refillBucket(ctx context.Context, refill admin.Refill) (*BucketRefill, error) {
	if err := b.d.repo.Usable(ctx); err != nil {
		return nil, err
	}
	if err := checkEntityID("entity", refill.Entity); err != nil {
		return nil, err
	}
	if err := checkResource(refill.Resource); err != nil {
		return nil, err
	}
	if refill.ID != "" {
		if reason := schema.CheckOperation(refill.ID); reason != "" {
			return nil, invalid("options.ID", "%s", reason)
		}
	}
	var err error
	if refill.By, err = b.d.mayChange(ctx); err != nil {
		return nil, err
	}
	if err := b.d.takeOverBucket(ctx, refill.Entity, refill.Resource); err != nil {
		return nil, err
	}
	defer b.d.repo.Told.Refilled(refill.Entity, refill.Resource) // also where no answer came
	done, err := b.d.repo.Items.Buckets.Refill(ctx, refill)
	err = b.d.repo.Layout.KindError("the bucket", err)
	if err != nil {
		return nil, err
	}
	out := &BucketRefill{ID: done.ID, At: done.At, Repeated: done.Repeated, Missing: done.Missing, Estimated: done.Estimated}
	for _, l := range done.Limits {
		out.Limits = append(out.Limits, LimitRefill{Name: l.Name, Before: floorDiv(l.Before, milli), After: floorDiv(l.After, milli)})
	}
	return out, nil
}
