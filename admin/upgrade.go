package admin

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Upgrade lets the table have everything that this version of dynalimit can store, such as levels
// that extend, and parents that count by their own levels. Older versions refuse the table from then on, within their ConfigTTL: update every
// process first. It says which generation of kinds of limits clients had to know before, and have
// to know now. To upgrade what is upgraded writes nothing, and a dry run writes nothing either. Tables
// that this version makes need no upgrade.
func (a *Admin) Upgrade(ctx context.Context, dryRun bool) (before, now int64, err error) {
	if !dryRun {
		if err := a.d.mayChange(ctx); err != nil {
			return 0, 0, err
		}
	}
	record, err := a.d.version(ctx)
	if err != nil || record.KindsMin >= schema.KnownKinds {
		return record.KindsMin, record.KindsMin, err
	}
	if dryRun {
		return record.KindsMin, schema.KnownKinds, nil
	}
	err = a.d.Table.UpdateIf(ctx, opRaiseKinds, schema.VersionKey(), schema.RaiseKinds(schema.KnownKinds))
	return record.KindsMin, schema.KnownKinds, err
}
