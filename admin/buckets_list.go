package admin

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Bucket is one bucket of an entity, as Buckets.List lists it. It is a plain value.
type Bucket struct {
	// EntityID is the bucket's entity.
	EntityID string
	// Resource is the bucket's resource.
	Resource string
	// Limits are the bucket's limits, in name order, with their tokens now,
	// refill included: they are those in force at its last claim. Source,
	// Requested, Exceeded and RetryAfter are not set.
	Limits []dynalimit.LimitStatus
	// Consumed counts the takes from each limit since the bucket was made, less give-backs,
	// in whole tokens rounded down, by the name of the limit.
	Consumed dynalimit.Amounts
	// Refilled is the instant up to which the stored tokens include refill; zero if unknown.
	Refilled time.Time
	// Expires is when DynamoDB may delete the bucket, in whole seconds, unless it is used
	// before; zero for never.
	Expires time.Time
}

// List lists the buckets of an entity, in the order of their resources. It reads consistently, page by page,
// and writes nothing. It fails with a *ValidationError for a bad id, ends with an error when ctx does, and
// leaves out buckets of the layout before composite items.
func (b Buckets) List(ctx context.Context, entity string) iter.Seq2[Bucket, error] {
	if err := cmp.Or(b.d.Usable(ctx), checkEntityID("entity", entity)); err != nil {
		return problem.ErrorList[Bucket](err)
	}
	return func(yield func(Bucket, error) bool) {
		for item, err := range b.d.Table.Items(ctx, table.Query{
			Op: "list the buckets", Hash: schema.PK, Value: b.d.Keys.Entity(entity), Prefix: schema.BucketsOf, Whole: true,
		}) {
			if err != nil {
				yield(Bucket{}, err)
				return
			}
			if _, resource, ok := b.d.Keys.BucketOwner(schema.KeyOf(item)); ok && !b.yieldBucket(entity, resource, item, yield) {
				return
			}
		}
	}
}

// OfResource lists the buckets of a resource, in the order of their entities. It reads an index,
// so a bucket made or deleted a moment ago may be missing or still
// listed. It reads the tokens consistently, a hundred buckets with each request, as they
// are consumed. Nothing is written. It fails with a *ValidationError for a bad name, and
// ends with an error when ctx does. A bucket of the layout before composite items is not
// listed.
func (b Buckets) OfResource(ctx context.Context, resource string) iter.Seq2[Bucket, error] {
	if err := cmp.Or(b.d.Usable(ctx), checkResource(resource)); err != nil {
		return problem.ErrorList[Bucket](err)
	}
	q := table.Query{
		Op: "list the buckets of a resource", Index: schema.IndexResource, Hash: schema.GSI2PK, Value: b.d.Keys.Resource(resource),
		Sort: schema.GSI2SK, Prefix: schema.BucketEntries,
	}
	return func(yield func(Bucket, error) bool) {
		for item, err := range listPaged(ctx, b.d.Table, q, func(found []schema.Item) ([]schema.Item, error) {
			return b.d.Table.GetMany(ctx, q.Op, b.bucketKeysOf(found))
		}) {
			if err != nil {
				yield(Bucket{}, err)
				return
			}
			if item == nil { // it expired since
				continue
			}
			if entity, resource, _ := b.d.Keys.BucketOwner(schema.KeyOf(item)); !b.yieldBucket(entity, resource, item, yield) {
				return
			}
		}
	}
}

// bucketKeysOf returns the keys of the buckets that entries of the index name. It leaves out keys of anything
// else.
func (b Buckets) bucketKeysOf(entries []schema.Item) []schema.Key {
	return slices.DeleteFunc(keysOf(entries), func(key schema.Key) bool {
		_, _, ok := b.d.Keys.BucketOwner(key)
		return !ok
	})
}

// yieldBucket decodes and yields a bucket's item, or yields the error of a malformed one. It returns false if
// the caller stops or the item is malformed.
func (b Buckets) yieldBucket(entity, resource string, item schema.Item, yield func(Bucket, error) bool) bool {
	bucket, err := b.decodeBucket(entity, resource, item)
	return yield(bucket, err) && err == nil
}

// decodeBucket converts a bucket's item to a Bucket with its tokens now, in whole tokens. It leaves out ghosts,
// and fails for a malformed item.
func (b Buckets) decodeBucket(entity, resource string, item schema.Item) (Bucket, error) {
	image, err := b.d.Sets.DecodeBucket(item, nil, 0)
	if err != nil {
		return Bucket{}, b.d.Layout.Malformed(err)
	}
	out := Bucket{EntityID: entity, Resource: resource}
	if len(image.Set.Names) > 0 {
		out.Consumed = dynalimit.Amounts{}
	}
	now := b.d.Clock.NowMS()
	for i, name := range image.Set.Names {
		if !image.Limits[i].Ghost { // without parameters its tokens are unknown
			out.Limits = append(out.Limits, statusOf(entity, resource, image, i, now))
			out.Consumed[name] = floorDiv(image.Limits[i].Consumed, milli)
		}
	}
	if image.HasRefilled {
		out.Refilled = time.UnixMilli(image.Refilled).UTC()
	}
	if image.TTL != 0 {
		out.Expires = time.Unix(image.TTL, 0).UTC()
	}
	return out, nil
}

// statusOf returns the status of the i-th limit of a bucket at now, in Unix ms. It has the whole tokens and the
// time until the bucket is full, Never for an endless wait. For calls in flight it has free and taken slots.
func statusOf(entity, resource string, image *schema.Image, i int, now int64) dynalimit.LimitStatus {
	state, limit := image.State(i), &image.Limits[i]
	state = state.At(now)
	reset := dynalimit.Never
	if ms := state.Wait(now, state.Burst); ms < int64(dynalimit.Never/time.Millisecond) {
		reset = time.Duration(ms) * time.Millisecond
	}
	shown := dynalimit.Limit{Name: image.Set.Names[i], Capacity: limit.Capacity / milli, Burst: state.Burst / milli, RefillAmount: state.Amount / milli}
	if state.IsQuota() {
		shown.Window, shown.Zone = state.Windows().Unit().String(), state.Windows().Zone()
	} else {
		shown.RefillPeriod = time.Duration(state.Period) * time.Millisecond
	}
	if state.IsSlots() { // the bucket does not have the hold
		shown = dynalimit.Concurrent(shown.Name, shown.Capacity, 0)
		free := floorDiv(image.FreeSlots(i, shown.Hold.Milliseconds(), now), milli)
		return dynalimit.LimitStatus{EntityID: entity, Resource: resource, Remaining: free, InFlight: shown.Capacity - free, Limit: shown}
	}
	return dynalimit.LimitStatus{
		EntityID: entity, Resource: resource, Remaining: floorDiv(state.Tokens, milli), Reset: reset, Limit: shown,
	}
}
