package admin

import (
	"context"
	"slices"
	"strconv"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// raiseKinds raises kinds_min in the version record to the generation that configs need, before they are
// stored. It does nothing if all clients know their kinds, and returns a *fault.TableError if an administrator
// must upgrade the table first.
func (d *desk) raiseKinds(ctx context.Context, configs ...ScopedConfig) error {
	generation := int64(0)
	for _, c := range configs {
		generation = max(generation, c.Config.neededKinds())
	}
	if generation == 0 {
		return nil
	}
	return d.requireKinds(ctx, generation)
}

// checkParentCounts returns an error if e makes its parent count by the limits made for it, and other clients
// may not charge that. Otherwise it raises kinds_min in the version record where needed.
func (d *desk) checkParentCounts(ctx context.Context, e schema.EntityRecord) error {
	switch {
	case !e.CountsByOwn():
		return nil
	case d.Compatible:
		return invalid("entity.ParentID", "counts by the limits made for %s or its plan, which zae-limiter does not charge (RepositoryOptions.Compatible is set); set Cascade to charge the parent by all its sources, or Detached to charge it nothing", e.ParentID)
	}
	return d.requireKinds(ctx, schema.SourceKinds)
}

// requireKinds raises kinds_min, the generation of kinds that clients must know, in the version record, if it
// is lower; older clients then refuse the table. It returns a *fault.TableError if that needs an upgrade of the
// table.
func (d *desk) requireKinds(ctx context.Context, generation int64) error {
	record, err := d.versionRecord(ctx)
	switch {
	case err != nil || record.KindsMin >= generation:
		return err
	case generation >= schema.SourceKinds && record.KindsMin < schema.SourceKinds:
		return &fault.TableError{Table: d.Table.Name, Reason: "may be used by versions of dynalimit that do not know sources which extend, blocks with exceptions, unlimited sources that are counted, and parents that count by their own sources (kinds_min of its version record is " + strconv.FormatInt(record.KindsMin, 10) + "); update every process, then say so", Fix: fault.Upgrade}
	}
	return d.Table.UpdateIf(ctx, opRaiseKinds, schema.VersionKey(), schema.RaiseKinds(generation))
}

const opRaiseKinds = "set kinds_min in the version record (by an administrator of the whole table)"

// versionRecord reads the version record. It returns a *fault.TableError if the table has none.
func (d *desk) versionRecord(ctx context.Context) (schema.VersionRecord, error) {
	item, err := d.Table.Get(ctx, opRaiseKinds, schema.VersionKey())
	record, there := schema.DecodeVersion(item)
	if err == nil && !there {
		err = &fault.TableError{Table: d.Table.Name, Reason: "has no version record, which tells older clients of groups and quotas; write one", Fix: fault.CreateTable}
	}
	return record, err
}

// neededKinds returns the generation of kinds that clients must know to obey the configuration.
// It is 0 if all clients do.
func (c LimitConfig) neededKinds() int64 {
	switch {
	case slices.ContainsFunc(c.Limits, func(l dynalimit.Limit) bool { return l.IsConcurrent() || l.Reserve != 0 }):
		return schema.SlotsKinds
	case c.Extends || c.BlockedExcept || c.Admit || c.Counted || len(c.Raises) > 0:
		return schema.SourceKinds
	case slices.ContainsFunc(c.Limits, func(l dynalimit.Limit) bool { return l.IsQuota() || l.MaxDebt > 0 || l.Shadow }):
		return schema.QuotaKinds
	case len(c.Groups) > 0:
		return schema.GroupKinds
	}
	return 0
}
