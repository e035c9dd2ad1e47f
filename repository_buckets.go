package dynalimit

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// ResetOptions says how ResetBucket fills a bucket. Every field is optional: nil and the
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

// TopUpOptions says how TopUpBucket fills a bucket. Every field is optional: nil and the
// zero value draw an id.
type TopUpOptions struct {
	// ID names the operation among those of the entity, as ResetOptions.ID does.
	// Defaults to one that is drawn.
	ID string
}

// BucketRefill is what ResetBucket or TopUpBucket came to.
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

// ResetBucket makes the limits of a bucket full now, whatever they owe. Counters stay as
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
func (r *Repository) ResetBucket(ctx context.Context, entity, resource string, opts *ResetOptions) (*BucketRefill, error) {
	var o ResetOptions
	if opts != nil {
		o = *opts
	}
	for _, name := range o.Limits {
		if reason := schema.CheckLimitName(name); reason != "" {
			return nil, invalid("options.Limits", "limit name %s", reason)
		}
	}
	return r.refillBucket(ctx, admin.Refill{ID: o.ID, Entity: entity, Resource: resource, Limits: o.Limits})
}

// TopUpBucket adds whole tokens to limits of a bucket, at most up to their bursts. A debt
// is paid first: a limit at -30 of 100 holds 20 after 50 were added. Counters stay as they
// are. See ResetBucket for repetitions, other processes and errors.
func (r *Repository) TopUpBucket(ctx context.Context, entity, resource string, amounts Amounts, opts *TopUpOptions) (*BucketRefill, error) {
	if err := checkAmounts(amounts, false); err != nil {
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
	return r.refillBucket(ctx, admin.Refill{ID: o.ID, Entity: entity, Resource: resource, Add: add})
}

func (r *Repository) refillBucket(ctx context.Context, refill admin.Refill) (*BucketRefill, error) {
	if err := r.usable(ctx); err != nil {
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
	if refill.By, err = r.mayChange(ctx); err != nil {
		return nil, err
	}
	if err := r.takeOverBucket(ctx, refill.Entity, refill.Resource); err != nil {
		return nil, err
	}
	defer r.listeners.refilled(refill.Entity, refill.Resource) // also where no answer came
	done, err := r.admin.RefillBucket(ctx, refill)
	err = r.kindError("the bucket", err)
	if err != nil {
		return nil, err
	}
	out := &BucketRefill{ID: done.ID, At: done.At, Repeated: done.Repeated, Missing: done.Missing, Estimated: done.Estimated}
	for _, l := range done.Limits {
		out.Limits = append(out.Limits, LimitRefill{Name: l.Name, Before: floorDiv(l.Before, milli), After: floorDiv(l.After, milli)})
	}
	return out, nil
}

// takeOverBucket turns a bucket that is in the older layout.
func (r *Repository) takeOverBucket(ctx context.Context, entity, resource string) error {
	if r.compositeOnly() {
		return nil
	}
	turned, err := r.turner.Bucket(ctx, r.legacyBucket(entity, resource))
	r.logTurned(ctx, turned, entity, resource)
	return r.orMalformed(err)
}

// ResourceCapacity is how much of a resource is used now. It is a plain value.
type ResourceCapacity struct {
	// Resource is the resource.
	Resource string
	// Limits sum each limit, in name order, over the buckets that have it, of each cascade
	// over the highest: what others hold of it is within what that one holds. A parent
	// whose bucket does not have the limit, or that has none, holds nothing of it.
	Limits []LimitCapacity
	// Entities are all that have a bucket, in the order of their ids.
	Entities []EntityCapacity
}

// EntityCapacity is what one entity's bucket of a resource holds.
type EntityCapacity struct {
	// EntityID is the entity.
	EntityID string
	// ParentID is the parent that the entity charges too, as far as that has limits. Empty
	// for one that cascades no further.
	ParentID string
	// Limits are those of the bucket, in name order.
	Limits []LimitCapacity
}

// LimitCapacity is what buckets hold of a limit, in whole tokens; each bucket's are rounded
// down.
type LimitCapacity struct {
	// Name is the limit's.
	Name string
	// Capacity is the nominal allowance of the limit per its period, and Burst the most
	// that the buckets hold. Those of a limit that has other periods elsewhere are summed
	// all the same.
	Capacity, Burst int64
	// Remaining is what the buckets hold now, with their refill; negative in debt.
	Remaining int64
	// Used is what of Burst was taken and has not been refilled: more than Burst in debt.
	Used int64
	// Entities is how many buckets are summed.
	Entities int64
}

// ResourceCapacity reads who uses how much of a resource now: ResourceBuckets, which see,
// with the records of their entities, and their sums. It holds a line for each entity and
// limit in memory; ResourceBuckets lists them one by one.
func (r *Repository) ResourceCapacity(ctx context.Context, resource string) (*ResourceCapacity, error) {
	out := &ResourceCapacity{Resource: resource}
	var ids []string
	for b, err := range r.ResourceBuckets(ctx, resource) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, b.EntityID)
		out.Entities = append(out.Entities, EntityCapacity{EntityID: b.EntityID, Limits: capacitiesOf(b)})
	}
	records, err := r.cascading(ctx, ids)
	if err != nil {
		return nil, err
	}
	out.sum(records)
	return out, nil
}

// cascading reads the records of entities, and of those that they cascade into.
func (r *Repository) cascading(ctx context.Context, ids []string) (map[string]schema.EntityRecord, error) {
	records := map[string]schema.EntityRecord{}
	for depth := 0; len(ids) > 0 && depth < maxDepth; depth++ {
		read, err := r.admin.Entities(ctx, "read who cascades", ids)
		if err != nil {
			return nil, err
		}
		for _, e := range read {
			records[e.ID] = e
		}
		parents := map[string]bool{}
		for _, e := range read {
			if _, known := records[e.ParentID]; e.Cascade && e.ParentID != "" && !known {
				parents[e.ParentID] = true
			}
		}
		ids = slices.Sorted(maps.Keys(parents))
	}
	return records, nil
}

// sum says whom the entities charge too, and sums the limits.
func (c *ResourceCapacity) sum(records map[string]schema.EntityRecord) {
	type held struct{ entity, limit string }
	holds := map[held]bool{}
	for _, e := range c.Entities {
		for _, l := range e.Limits {
			holds[held{e.EntityID, l.Name}] = true
		}
	}
	sums := map[string]LimitCapacity{}
	for i := range c.Entities {
		e := &c.Entities[i]
		above := cascadesInto(e.EntityID, records)
		if len(above) > 0 {
			e.ParentID = above[0]
		}
		for _, l := range e.Limits {
			counts := func(parent string) bool {
				// Who was moved between two reads may seem to be above its own parent: the first by name counts.
				circle := e.EntityID < parent && slices.Contains(cascadesInto(parent, records), e.EntityID)
				return holds[held{parent, l.Name}] && !circle
			}
			if !slices.ContainsFunc(above, counts) {
				sumCapacity(sums, l)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		c.Limits = append(c.Limits, sums[name])
	}
}

// cascadesInto are the entities that a call of one charges too, as far as they have limits, the
// nearest first.
func cascadesInto(entity string, records map[string]schema.EntityRecord) (above []string) {
	for e := records[entity]; e.Cascade && e.ParentID != "" && e.ParentID != entity && !slices.Contains(above, e.ParentID) && len(above) < maxDepth-1; {
		above = append(above, e.ParentID)
		e = records[e.ParentID]
	}
	return above
}

func capacitiesOf(b Bucket) []LimitCapacity {
	limits := make([]LimitCapacity, len(b.Limits))
	for i, s := range b.Limits {
		limits[i] = LimitCapacity{
			Name: s.Limit.Name, Capacity: s.Limit.Capacity, Burst: s.Limit.Burst, Remaining: s.Remaining, Used: s.Limit.Burst - s.Remaining, Entities: 1,
		}
	}
	return limits
}

func sumCapacity(sums map[string]LimitCapacity, l LimitCapacity) {
	sum := sums[l.Name]
	sums[l.Name] = LimitCapacity{
		Name: l.Name, Capacity: sum.Capacity + l.Capacity, Burst: sum.Burst + l.Burst, Remaining: sum.Remaining + l.Remaining,
		Used: sum.Used + l.Used, Entities: sum.Entities + 1,
	}
}
