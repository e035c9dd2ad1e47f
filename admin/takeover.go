package admin

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/internal/legacy"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// takeOverBeforeChange turns limits of the layout before composite items into today's,
// before they are changed. What cannot be read is replaced.
func (d *desk) takeOverBeforeChange(ctx context.Context, owner schema.ConfigOwner) error {
	if err := d.Layout.TakeOver(ctx, owner); err != nil && !isValidation(err) {
		return err
	}
	return nil
}

// mostTakeOvers is how many owners' limits are turned at once.
const mostTakeOvers = 16

// atOnce does something for many of a list at once, until one fails.
func atOnce[T any](ctx context.Context, list []T, do func(ctx context.Context, one T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(mostTakeOvers)
	for _, one := range list {
		group.Go(func() error { return do(ctx, one) })
	}
	return group.Wait()
}

// takeOverAllBeforeChange is takeOverBeforeChange for many changes.
func (d *desk) takeOverAllBeforeChange(ctx context.Context, edits []*configChange) error {
	if d.Layout.Current() {
		return nil
	}
	return atOnce(ctx, edits, func(ctx context.Context, c *configChange) error { return d.takeOverBeforeChange(ctx, c.owner) })
}

// mayRead refuses a table whose layout is not known, and turns the limits of an owner that
// are to be read.
func (d *desk) mayRead(ctx context.Context, owner schema.ConfigOwner) error {
	if err := d.Layout.Check(ctx); err != nil {
		return err
	}
	return d.Layout.TakeOver(ctx, owner)
}

// mayReadAll is mayRead for many owners.
func (d *desk) mayReadAll(ctx context.Context, owners []schema.ConfigOwner) error {
	if err := d.Layout.Check(ctx); err != nil || d.Layout.Current() {
		return err
	}
	return atOnce(ctx, owners, func(ctx context.Context, owner schema.ConfigOwner) error {
		return within(fmt.Sprintf("%s: ", scopeOf(owner)), d.Layout.TakeOver(ctx, owner))
	})
}

// compatible refuses what zae-limiter refuses, on a repository that is to stay readable
// for it.
func (d *desk) compatible(resource, field string, limits []schema.ConfigLimit) error {
	if !d.Compatible {
		return nil
	}
	return shared.CheckCompatible(resource, field, limits)
}

// takeOverEntity turns all limits of an entity where they are in the older layout.
func (d *desk) takeOverEntity(ctx context.Context, id string) error {
	if d.Layout.Current() {
		return nil
	}
	_, err := d.Layout.Turner.Configs(ctx, d.Keys.Entity(id))
	return d.orMalformed(err)
}

// takeOverBucket turns a bucket that is in the older layout.
func (d *desk) takeOverBucket(ctx context.Context, entity, resource string) error {
	if d.Layout.Current() {
		return nil
	}
	of := schema.Legacy{Keys: d.Keys, IsBucket: true, Owner: schema.ConfigOwner{Entity: entity, Resource: resource}}
	turned, err := d.Layout.Turner.Bucket(ctx, of)
	d.Layout.Turned(ctx, turned, entity, resource)
	return d.orMalformed(err)
}

// orMalformed is the error that users see of an item that cannot be understood.
func (d *desk) orMalformed(err error) error {
	if malformed, ok := errors.AsType[*legacy.MalformedError](err); ok {
		return d.Layout.Malformed(malformed.Err)
	}
	return err
}
