package admin

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/legacy"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// takeOverBeforeChange converts an owner's limits of the older layout to a configuration in the table, before
// that is changed, and logs that. It ignores unreadable ones, which the change replaces.
func (d *desk) takeOverBeforeChange(ctx context.Context, owner schema.ConfigOwner) error {
	if err := d.Layout.TakeOver(ctx, owner); err != nil && !isValidation(err) {
		return err
	}
	return nil
}

// mostTakeOvers is how many owners' limits are turned at once.
const mostTakeOvers = 16

// doConcurrently calls do for each element of a list, mostTakeOvers at a time. The first error ends the context
// of the others, and is returned.
func doConcurrently[T any](ctx context.Context, list []T, do func(ctx context.Context, one T) error) error {
	group, ctx := guard.WithContext(ctx)
	group.SetLimit(mostTakeOvers)
	for _, one := range list {
		group.Go(func() error { return do(ctx, one) })
	}
	return group.Wait()
}

// takeOverAllBeforeChange is takeOverBeforeChange for the owners of many changes. It does nothing
// if no item of the older layout is left.
func (d *desk) takeOverAllBeforeChange(ctx context.Context, edits []*configChange) error {
	if d.Layout.Current() {
		return nil
	}
	return doConcurrently(ctx, edits, func(ctx context.Context, c *configChange) error { return d.takeOverBeforeChange(ctx, c.owner) })
}

// readConfig reads the stored configuration of an owner, consistently; nil if nothing is stored. It merges
// limits of the older layout into the result, and writes nothing.
func (d *desk) readConfig(ctx context.Context, op string, owner schema.ConfigOwner) (schema.Item, error) {
	older, err := d.readOlder(ctx, owner)
	if err != nil {
		return nil, err
	}
	key := d.Keys.Config(owner)
	item, err := d.Table.Get(ctx, op, key)
	if err != nil {
		return nil, err
	}
	found := map[schema.Key]schema.Item{key: item}
	err = older.MergeInto(found)
	return found[key], d.wrapMalformed(err)
}

// readConfigsOf is readConfig for many owners, in their order. An owner may be repeated.
func (d *desk) readConfigsOf(ctx context.Context, op string, owners []schema.ConfigOwner) ([]schema.Item, error) {
	older, err := d.readOlder(ctx, owners...)
	if err != nil {
		return nil, err
	}
	keys := make([]schema.Key, len(owners))
	for i, owner := range owners {
		keys[i] = d.Keys.Config(owner)
	}
	items, err := d.Table.GetMany(ctx, op, keys)
	if err != nil || len(older) == 0 {
		return items, err
	}
	found := make(map[schema.Key]schema.Item, len(keys))
	for i, key := range keys {
		found[key] = items[i]
	}
	if err := older.MergeInto(found); err != nil {
		return nil, d.wrapMalformed(err)
	}
	for i, key := range keys {
		items[i] = found[key]
	}
	return items, nil
}

// readOlder reads the owners' limits of the older layout, after a check that this version may use the table. It
// returns nil once the table has lost all such items.
func (d *desk) readOlder(ctx context.Context, owners ...schema.ConfigOwner) (legacy.Limits, error) {
	if err := d.Layout.Check(ctx); err != nil {
		return nil, err
	}
	return d.Layout.Older(ctx, owners...)
}

// checkCompatible returns a *ValidationError of field for a resource or limits that zae-limiter refuses, if the
// repository must stay readable for it; nil otherwise.
func (d *desk) checkCompatible(resource, field string, limits []schema.ConfigLimit) error {
	if !d.Compatible {
		return nil
	}
	return shared.CheckCompatible(resource, field, limits)
}

// takeOverEntity converts the limits of an entity, on all resources, from the older layout to today's. It does
// nothing without such limits, and once the table has no item of that layout.
func (d *desk) takeOverEntity(ctx context.Context, id string) error {
	if d.Layout.Current() {
		return nil
	}
	_, err := d.Layout.Turner.Configs(ctx, d.Keys.Entity(id))
	return d.wrapMalformed(err)
}

// takeOverBucket converts a bucket of the older layout in the table, if there is one, and reports that to the
// layout and its limiters. It does nothing once no item of that layout is left.
func (d *desk) takeOverBucket(ctx context.Context, entity, resource string) error {
	if d.Layout.Current() {
		return nil
	}
	of := schema.Legacy{Keys: d.Keys, IsBucket: true, Owner: schema.ConfigOwner{Entity: entity, Resource: resource}}
	turned, err := d.Layout.Turner.Bucket(ctx, of)
	d.Layout.Turned(ctx, turned, entity, resource)
	return d.wrapMalformed(err)
}

// wrapMalformed returns the error for callers if err is a *legacy.MalformedError. It returns any other err
// unchanged.
func (d *desk) wrapMalformed(err error) error {
	if malformed, ok := errors.AsType[*legacy.MalformedError](err); ok {
		return d.Layout.Malformed(malformed.Err)
	}
	return err
}
