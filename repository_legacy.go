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

// takeover turns items of the older layout into today's.
type takeover struct {
	layout *layout
	turner *legacy.Turner
	looks  *legacyLooks
	keys   schema.Keys
	sets   *schema.LimitSets
}

// looked reports whether a place was looked at lately.
func (o takeover) looked(place string) bool {
	l := o.looks.Get(place)
	if l == nil {
		return false
	}
	age := o.layout.clock.Source().Sub(l.at)
	return age >= 0 && age < versionTTL
}

// configs turns what a configuration is made of where it is in the older layout. It
// reports whether it looked: what was read before may be from before others turned it.
func (o takeover) configs(ctx context.Context, entity, resource string) (looked bool, err error) {
	if o.layout.compositeOnly() {
		return false, nil
	}
	owners := []schema.ConfigOwner{{}, {Resource: resource}, {Entity: entity, Resource: resource}}
	if resource != schema.DefaultResource {
		owners = append(owners, schema.ConfigOwner{Entity: entity, Resource: schema.DefaultResource})
	}
	var looks atomic.Bool
	looking, lookCtx := errgroup.WithContext(ctx)
	for _, owner := range owners {
		looking.Go(func() error {
			looked, err := o.config(lookCtx, owner)
			if looked {
				looks.Store(true)
			}
			return err
		})
	}
	err = looking.Wait()
	return looks.Load(), err
}

// bucket looks for a bucket that was not there when it was read, and turns it
// where it is in the older layout. It reports whether there is one now.
func (o takeover) bucket(ctx context.Context, entity, resource string) (found bool, err error) {
	if o.layout.compositeOnly() {
		return false, nil
	}
	t, err := o.turner.Bucket(ctx, o.bucketOf(entity, resource))
	o.tell(ctx, t, entity, resource)
	return t.Item != nil, o.orMalformed(err)
}

// config turns the limits of an owner where they are in the older layout. It
// reports whether it looked for any.
func (o takeover) config(ctx context.Context, owner schema.ConfigOwner) (looked bool, err error) {
	of := schema.Legacy{Keys: o.keys, Owner: owner.Normal()}
	key := of.Composite()
	place := key.PK + key.SK
	if o.layout.compositeOnly() || owner.Plan != "" || o.looked(place) { // plans are younger
		return false, nil
	}
	at := o.layout.clock.Source()
	t, err := o.turner.Config(ctx, of)
	var malformed *legacy.MalformedError
	switch {
	case errors.As(err, &malformed):
		return false, invalid("stored limits of the older layout", "cannot be read: %v; correct or delete the item", malformed.Err)
	case err != nil:
		return false, err
	}
	o.looks.Add(look{place: place, at: at})
	o.tell(ctx, t, owner.Entity, owner.Resource)
	return true, nil
}

// bucketOf is a bucket in the older layout.
func (o takeover) bucketOf(entity, resource string) schema.Legacy {
	return schema.Legacy{Keys: o.keys, IsBucket: true, Owner: schema.ConfigOwner{Entity: entity, Resource: resource}}
}

// tell tells the operator of items that were turned.
func (o takeover) tell(ctx context.Context, t legacy.Turned, entity, resource string) {
	if t.Limits == 0 {
		return
	}
	text, level := "items of the older layout were turned into today's", slog.LevelInfo
	if t.Superseded {
		text, level = "items of the older layout were removed: today's item was there, and says other things", slog.LevelWarn
	}
	o.layout.log.Log(ctx, level, text, slog.String("table", o.layout.table.Name), slog.String("entity", entity), slog.String("resource", resource), slog.Int("limits", t.Limits))
}

// orMalformed is the error that users see of an item that cannot be understood.
func (o takeover) orMalformed(err error) error {
	var malformed *legacy.MalformedError
	if errors.As(err, &malformed) {
		return o.layout.malformed(malformed.Err)
	}
	return err
}

// beforeCreate turns the buckets of a bucket's limits, if it is about to be made while
// they are there. What it answers is decided again, from the bucket that they became; ok
// is false if there is nothing to turn, and the bucket may be made.
func (o takeover) beforeCreate(ctx context.Context, entity, resource string, hint *schema.LimitSet, slot int) (a lane.Answer, ok bool) {
	if o.layout.compositeOnly() {
		return lane.Answer{}, false
	}
	turned, v, err := o.turner.BucketOnce(ctx, o.bucketOf(entity, resource))
	if v == landed {
		return lane.Answer{}, false
	}
	var malformed *legacy.MalformedError
	if errors.As(err, &malformed) {
		return lane.Answer{Verdict: failed, Err: o.layout.malformed(malformed.Err)}, true
	}
	if v != refused {
		return lane.Answer{Verdict: v, Err: err}, true
	}
	if !turned.Superseded {
		o.tell(ctx, turned, entity, resource)
	}
	image, err := o.sets.DecodeBucket(turned.Item, hint, slot)
	if err != nil {
		return lane.Answer{Verdict: failed, Err: o.layout.malformed(err)}, true
	}
	return lane.Answer{Verdict: refused, Image: image, Seen: true}, true
}

// beforeCreates turns the buckets of limits that a transaction would make anew. If
// there are any, it refuses the transaction with what they became.
func (o takeover) beforeCreates(ctx context.Context, creates map[int]*schema.Create, slot int) (verdict, map[int]*schema.Image, error) {
	images := map[int]*schema.Image{}
	for i, c := range creates {
		a, turned := o.beforeCreate(ctx, c.Entity, c.Resource, nil, slot)
		switch {
		case !turned:
		case a.Verdict == refused:
			images[i] = a.Image
		default:
			return a.Verdict, nil, a.Err
		}
	}
	if len(images) > 0 {
		return refused, images, nil
	}
	return landed, nil, nil
}
