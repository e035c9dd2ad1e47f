package legacy

import (
	"context"
	"fmt"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Limits are limits of the older layout, by the key of their
// configuration. Read them before the configurations that they are merged with: another process
// may turn them in between.
type Limits map[schema.Key][]schema.LegacyLimit

// MergeInto merges the limits into the configurations in found, by key, as a conversion would. It changes the
// map found, and no table. It fails for a malformed configuration.
func (l Limits) MergeInto(found map[schema.Key]schema.Item) error {
	for key, limits := range l {
		item, _, err := mergeLimits(limits[0].Legacy, found[key], limits)
		if err != nil {
			return err
		}
		found[key] = item
	}
	return nil
}

// mergeLimits returns stored, a configuration of today's layout or nil, with the limits of the older layout. If
// stored has limits or is unlimited, it is returned unchanged, and won is true.
func mergeLimits(of schema.Legacy, stored schema.Item, limits []schema.LegacyLimit) (item schema.Item, won bool, err error) {
	c, ok, err := schema.ComposeConfig(stored, limits)
	if err != nil {
		key := of.Composite()
		return nil, false, &MalformedError{fmt.Errorf("item %q, %q: %w", key.PK, key.SK, err)}
	}
	if !ok {
		return stored, true, nil
	}
	return c.Item(of.Keys, of.Owner, stored), false, nil
}

// Limits reads and decodes the limits of an owner in the older layout, nil without any. It returns a
// *MalformedError if one cannot be decoded, or if they do not fit in a transaction.
func (t *Turner) Limits(ctx context.Context, of schema.Legacy) ([]schema.LegacyLimit, error) {
	q := table.Query{Op: opConfig, Hash: schema.PK, Value: of.Composite().PK, Prefix: schema.LegacyLimits, Whole: true}
	if of.Owner.Entity != "" {
		q.Prefix += of.Owner.Resource + "#"
	}
	var limits []schema.LegacyLimit
	for item, err := range t.Table.Items(ctx, q) {
		if err != nil {
			return nil, err
		}
		if _, ok := schema.LegacyOf(schema.KeyOf(item)); !ok {
			continue
		}
		limit, err := schema.DecodeLegacyLimit(item)
		if err != nil {
			return nil, &MalformedError{err}
		}
		limits = append(limits, limit)
	}
	return limits, checkCount(of, len(limits))
}

// ReadBucket reads a bucket, in either layout, and returns it as a composite item; nil if it is missing. It
// writes nothing.
func (t *Turner) ReadBucket(ctx context.Context, of schema.Legacy) (schema.Item, error) {
	turned, _, err := t.proposeBucket(ctx, of)
	return turned.Item, err
}
