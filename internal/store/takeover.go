package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/legacy"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The older layout has one item for each limit. Those items are read in addition to today's, until the
// version record says that they are all gone. A read writes nothing, because their writer may still need
// them. They are turned into today's by a change of that very item, by the call that makes a bucket in their
// place, and by Migrate.

// Takeover turns items of the older layout into today's.
type Takeover struct {
	// Turner makes the changes.
	Turner *legacy.Turner

	layout *layout.Layout
	// looks has the time at which a place had no such items, for as long as the version record is trusted.
	looks *cache.Recent[string, time.Time]
	keys  schema.Keys
	sets  *schema.LimitSets
}

// NewTakeover returns the takeover of a table, and sends nothing. It remembers for up to size buckets and
// configurations that they have no items of the older layout. It panics for a size below 1.
func NewTakeover(l *layout.Layout, t *legacy.Turner, keys schema.Keys, sets *schema.LimitSets, size int) *Takeover {
	looks, err := cache.NewRecent[string, time.Time](size)
	if err != nil {
		panic(err)
	}
	return &Takeover{Turner: t, layout: l, looks: looks, keys: keys, sets: sets}
}

// wasChecked reports whether the table was found to have no items of the older layout for a bucket or
// configuration, within the last layout.TTL. place is its key.
func (o *Takeover) wasChecked(place string) bool {
	at := o.looks.Get(place)
	if at == nil {
		return false
	}
	age := o.layout.Now().Sub(*at)
	return age >= 0 && age < layout.TTL
}

// mostLooks bounds the number of owners with limits read at once.
const mostLooks = 16

// ReadLimits returns the limits of owners in the older layout, by the key of today's configuration; nil once
// the table has lost all such items. looked is true if it asked the table: configurations read earlier may then
// be out of date, because another process may have converted the limits. It leaves out plans, and owners
// without such limits at the last look.
func (o *Takeover) ReadLimits(ctx context.Context, owners ...schema.ConfigOwner) (older legacy.Limits, looked bool, err error) {
	if o.layout.CompositeOnly() {
		return nil, false, nil
	}
	older = legacy.Limits{}
	var mu sync.Mutex
	looking, lookCtx := guard.WithContext(ctx)
	looking.SetLimit(mostLooks)
	for _, owner := range owners {
		of := schema.Legacy{Keys: o.keys, Owner: owner.Normal()}
		key := of.Composite()
		place := key.PK + key.SK
		if owner.Plan != "" || o.wasChecked(place) { // plans are younger
			continue
		}
		looked = true
		looking.Go(func() error {
			at := o.layout.Now()
			limits, err := o.Turner.Limits(lookCtx, of)
			if err != nil {
				return UnreadableError(err)
			}
			if len(limits) == 0 {
				o.looks.Add(place, at)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			older[key] = limits
			return nil
		})
	}
	if err := looking.Wait(); err != nil {
		return nil, looked, err
	}
	return older, looked, nil
}

// ReadOlderBucket reads a bucket of the older layout that is absent in today's, and returns its image in
// today's form. It writes nothing. It returns nil if the bucket is absent in both.
func (o *Takeover) ReadOlderBucket(ctx context.Context, entity, resource string, slot int) (*schema.Image, error) {
	if o.layout.CompositeOnly() {
		return nil, nil
	}
	item, err := o.Turner.ReadBucket(ctx, o.bucketOf(entity, resource))
	if err != nil {
		return nil, o.wrapMalformed(err)
	}
	image, err := o.sets.DecodeBucket(item, nil, slot)
	if err != nil {
		return nil, o.layout.MalformedError(err)
	}
	return image, nil
}

// UnreadableError returns the *fault.ValidationError for users about limits of the older layout that cannot be
// decoded. Any other error, and nil, stays.
func UnreadableError(err error) error {
	if malformed, ok := errors.AsType[*legacy.MalformedError](err); ok {
		return &fault.ValidationError{
			Package: "dynalimit", Field: "stored limits of the older layout", Code: fault.InvalidRequest,
			Reason: fmt.Sprintf("cannot be read: %v; correct or delete the item", malformed.Err),
		}
	}
	return err
}

// ConvertConfig converts the limits of an owner to today's layout, if they are in the older one, and logs that.
// It asks the table at most once per owner and layout.TTL, and never for plans. Unreadable ones are a
// *fault.ValidationError.
func (o *Takeover) ConvertConfig(ctx context.Context, owner schema.ConfigOwner) error {
	of := schema.Legacy{Keys: o.keys, Owner: owner.Normal()}
	key := of.Composite()
	place := key.PK + key.SK
	if o.layout.CompositeOnly() || owner.Plan != "" || o.wasChecked(place) {
		return nil
	}
	at := o.layout.Now()
	t, err := o.Turner.Config(ctx, of)
	if err != nil {
		return UnreadableError(err)
	}
	o.looks.Add(place, at)
	o.LogTurned(ctx, t, owner.Entity, owner.Resource)
	return nil
}

// bucketOf returns the names of a bucket in the older layout.
func (o *Takeover) bucketOf(entity, resource string) schema.Legacy {
	return schema.Legacy{Keys: o.keys, IsBucket: true, Owner: schema.ConfigOwner{Entity: entity, Resource: resource}}
}

// LogTurned logs that items of the older layout were converted to today's, or removed because today's exist.
// It logs nothing without items.
func (o *Takeover) LogTurned(ctx context.Context, t legacy.Turned, entity, resource string) {
	if t.Limits == 0 {
		return
	}
	text, level := "items of the older layout were turned into today's", slog.LevelInfo
	if t.Superseded {
		text, level = "items of the older layout were removed: today's item was there, and says other things", slog.LevelWarn
	}
	o.layout.Log.Log(ctx, level, text, slog.String("table", o.layout.Table.Name), slog.String("entity", entity), slog.String("resource", resource), slog.Int("limits", t.Limits))
}

// wrapMalformed returns the error for users if err is about an item of the older layout that cannot be decoded;
// else it returns err unchanged.
func (o *Takeover) wrapMalformed(err error) error {
	var malformed *legacy.MalformedError
	if errors.As(err, &malformed) {
		return o.layout.MalformedError(malformed.Err)
	}
	return err
}

// convertInsteadOfCreate converts the older layout's items of a bucket that is to be created. It then returns a
// refusal with the converted bucket, so that the caller decides again, or the failure. ok is false without such
// items, and the bucket may be created.
func (o *Takeover) convertInsteadOfCreate(ctx context.Context, entity, resource string, hint *schema.LimitSet, slot int) (a lane.Answer, ok bool) {
	turned, v, err := o.Turner.BucketOnce(ctx, o.bucketOf(entity, resource))
	if v == ddb.Landed {
		return lane.Answer{}, false
	}
	var malformed *legacy.MalformedError
	if errors.As(err, &malformed) {
		return lane.Answer{Verdict: ddb.Failed, Err: o.layout.MalformedError(malformed.Err)}, true
	}
	if v != ddb.Refused {
		return lane.Answer{Verdict: v, Err: err}, true
	}
	if !turned.Superseded {
		o.LogTurned(ctx, turned, entity, resource)
	}
	image, err := o.sets.DecodeBucket(turned.Item, hint, slot)
	if err != nil {
		return lane.Answer{Verdict: ddb.Failed, Err: o.layout.MalformedError(err)}, true
	}
	return lane.Answer{Verdict: ddb.Refused, Image: image, Seen: true}, true
}

// convertInsteadOfCreates converts the older layout's items of the buckets that a transaction creates. It then
// returns a refusal with the images of the converted buckets by their place. Without such items it returns
// Landed, and after a failure the first one.
func (o *Takeover) convertInsteadOfCreates(ctx context.Context, creates map[int]*schema.Create, slot int) (ddb.Verdict, map[int]*schema.Image, error) {
	images := map[int]*schema.Image{}
	for i, c := range creates {
		a, turned := o.convertInsteadOfCreate(ctx, c.Entity, c.Resource, nil, slot)
		switch {
		case !turned:
		case a.Verdict == ddb.Refused:
			images[i] = a.Image
		default:
			return a.Verdict, nil, a.Err
		}
	}
	if len(images) > 0 {
		return ddb.Refused, images, nil
	}
	return ddb.Landed, nil, nil
}
