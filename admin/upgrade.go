package admin

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Upgrade allows the table everything that this version of dynalimit can store: sources that extend,
// and parents that count by their own sources. Older versions refuse the table from then on, within
// their ConfigTTL: update every process first. It returns the generation of kinds of limits that
// clients had to know before, and the one that they have to know now. It writes nothing if the table
// is upgraded already, nor in a dry run. Tables that this version makes need no upgrade.
func (a *Admin) Upgrade(ctx context.Context, dryRun bool) (before, now int64, err error) {
	if !dryRun {
		if err := a.d.checkChange(ctx); err != nil {
			return 0, 0, err
		}
	}
	record, err := a.d.versionRecord(ctx)
	if err != nil || record.KindsMin >= schema.KnownKinds {
		return record.KindsMin, record.KindsMin, err
	}
	if dryRun {
		return record.KindsMin, schema.KnownKinds, nil
	}
	err = a.d.Table.UpdateIf(ctx, opRaiseKinds, schema.VersionKey(), schema.RaiseKinds(schema.KnownKinds))
	return record.KindsMin, schema.KnownKinds, err
}
