package dynalimit

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/legacy"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Items of the layout before composite items, one for each limit, are turned into today's
// as they are met, and by Migrate. Where the version record says that none is left, nobody
// looks for any.

// compositeOnly reports whether the version record says that no item of the older layout is
// left.
func (r *Repository) compositeOnly() bool {
	seen := r.version.seen.Load()
	return seen != nil && seen.compositeOnly
}

// look is a place in which nothing of the older layout was found, or is left.
type look struct {
	place string
	at    time.Time
}

// legacyLooks remembers where was looked, for as long as the version record is believed.
type legacyLooks = cache.Recent[string, look]

func newLegacyLooks(size int) *legacyLooks {
	looks, err := cache.NewRecent(size, func(l *look) string { return l.place })
	if err != nil { // a size below 1, which NewRepository refuses
		panic(err)
	}
	return looks
}

// looked reports whether a place was looked at lately.
func (r *Repository) looked(place string) bool {
	l := r.looks.Get(place)
	if l == nil {
		return false
	}
	age := r.clock.Source().Sub(l.at)
	return age >= 0 && age < versionTTL
}

// takeOverConfigs turns what a configuration is made of where it is in the older layout. It
// reports whether it looked: what was read before may be from before others turned it.
func (r *Repository) takeOverConfigs(ctx context.Context, key configKey) (looked bool, err error) {
	if r.compositeOnly() {
		return false, nil
	}
	owners := []schema.ConfigOwner{{}, {Resource: key.resource}, {Entity: key.entity, Resource: key.resource}}
	if key.resource != schema.DefaultResource {
		owners = append(owners, schema.ConfigOwner{Entity: key.entity, Resource: schema.DefaultResource})
	}
	var looks atomic.Bool
	looking, lookCtx := errgroup.WithContext(ctx)
	for _, owner := range owners {
		looking.Go(func() error {
			looked, err := r.takeOverConfig(lookCtx, owner)
			if looked {
				looks.Store(true)
			}
			return err
		})
	}
	err = looking.Wait()
	return looks.Load(), err
}

// bucketElsewhere looks for a bucket that was not there when it was read, and turns it
// where it is in the older layout. It reports whether there is one now.
func (r *Repository) bucketElsewhere(ctx context.Context, key configKey) (found bool, err error) {
	if r.compositeOnly() {
		return false, nil
	}
	t, err := r.turner.Bucket(ctx, r.legacyBucket(key.entity, key.resource))
	r.logTurned(ctx, t, key.entity, key.resource)
	return t.Item != nil, r.orMalformed(err)
}

// takeOverConfig turns the limits of an owner where they are in the older layout. It
// reports whether it looked for any.
func (r *Repository) takeOverConfig(ctx context.Context, owner schema.ConfigOwner) (looked bool, err error) {
	of := schema.Legacy{Keys: r.keys, Owner: owner.Normal()}
	key := of.Composite()
	place := key.PK + key.SK
	if r.compositeOnly() || owner.Plan != "" || r.looked(place) { // plans are younger
		return false, nil
	}
	at := r.clock.Source()
	t, err := r.turner.Config(ctx, of)
	var malformed *legacy.MalformedError
	switch {
	case errors.As(err, &malformed):
		return false, invalid("stored limits of the older layout", "cannot be read: %v; correct or delete the item", malformed.Err)
	case err != nil:
		return false, err
	}
	r.looks.Add(look{place: place, at: at})
	r.logTurned(ctx, t, owner.Entity, owner.Resource)
	return true, nil
}

func (r *Repository) legacyBucket(entity, resource string) schema.Legacy {
	return schema.Legacy{Keys: r.keys, IsBucket: true, Owner: schema.ConfigOwner{Entity: entity, Resource: resource}}
}

// logTurned tells the operator of items that were turned.
func (r *Repository) logTurned(ctx context.Context, t legacy.Turned, entity, resource string) {
	if t.Limits == 0 {
		return
	}
	text, level := "items of the older layout were turned into today's", slog.LevelInfo
	if t.Superseded {
		text, level = "items of the older layout were removed: today's item was there, and says other things", slog.LevelWarn
	}
	r.log.Log(ctx, level, text, slog.String("table", r.table), slog.String("entity", entity), slog.String("resource", resource), slog.Int("limits", t.Limits))
}

// orMalformed is the error that users see of an item that cannot be understood.
func (r *Repository) orMalformed(err error) error {
	var malformed *legacy.MalformedError
	if errors.As(err, &malformed) {
		return r.malformed(malformed.Err)
	}
	return err
}

// turnBeforeCreate turns the buckets of a bucket's limits, if it is about to be made while
// they are there. What it answers is decided again, from the bucket that they became; ok
// is false if there is nothing to turn, and the bucket may be made.
func (r *Repository) turnBeforeCreate(ctx context.Context, entity, resource string, hint *schema.LimitSet, slot int) (a lane.Answer, ok bool) {
	if r.compositeOnly() {
		return lane.Answer{}, false
	}
	turned, v, err := r.turner.BucketOnce(ctx, r.legacyBucket(entity, resource))
	if v == landed {
		return lane.Answer{}, false
	}
	var malformed *legacy.MalformedError
	if errors.As(err, &malformed) {
		return lane.Answer{Verdict: failed, Err: r.malformed(malformed.Err)}, true
	}
	if v != refused {
		return lane.Answer{Verdict: v, Err: err}, true
	}
	if !turned.Superseded {
		r.logTurned(ctx, turned, entity, resource)
	}
	image, err := r.sets.DecodeBucket(turned.Item, hint, slot)
	if err != nil {
		return lane.Answer{Verdict: failed, Err: r.malformed(err)}, true
	}
	return lane.Answer{Verdict: refused, Image: image, Seen: true}, true
}
