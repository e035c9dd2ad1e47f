package admin

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/legacy"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// ErrLegacyWriters is the error of a Migrate that found items of the older layout in each
// of its passes: their writers have not been stopped.
var ErrLegacyWriters = legacy.ErrWriters

// ErrLegacyMalformed is the error of a Migrate that turned everything but items that cannot
// be understood: MigrateReport.Malformed names them.
var ErrLegacyMalformed = legacy.ErrMalformed

// MigrateReport is the result of a migration, of a dry run's one pass, or the progress.
type MigrateReport struct {
	// DryRun means that nothing was written.
	DryRun bool
	// Complete means that a whole pass found no item of the older layout, and that the
	// table's version record says so: no client looks for any from then on.
	Complete bool
	// Passes is the number of passes over the table; 0 if its version record already
	// said that no item is left.
	Passes int
	// Scanned is how many items were looked at, in all passes.
	Scanned int64
	// Buckets and Configs are how many of today's items were made.
	Buckets, Configs int
	// Found is how many items of the older layout the passes met, one for each limit:
	// always Turned + Superseded + Elsewhere + Unreadable.
	Found int
	// Turned is how many of them became part of today's items. A dry run counts those
	// here that would be Superseded.
	Turned int
	// Superseded were deleted because today's item was there already.
	Superseded int
	// Elsewhere were turned by others, as calls met them, between the look and the write.
	Elsewhere int
	// Listed is the number of records of entities that were in no list, because another tool made
	// them: they are listed now. Found does not include them.
	Listed int
	// Unreadable cannot be understood and were left.
	Unreadable int
	// Malformed describes the first of them.
	Malformed []string
	// Left is how many the last pass met; 0 when the migration is complete. A dry run
	// turns none.
	Left int
	// LastWrite is the latest refill of a bucket of the older layout that was met: no
	// writer of that layout admitted anything later to those. Zero if none was met.
	LastWrite time.Time
}

// Migrate turns every item of the layout before composite items into today's, in the whole
// table with all namespaces: buckets at their level, configurations with their
// limits. It may run beside calls, which turn their own items, and beside
// another Migrate; stop the writers of the older layout before. It passes over
// the table until a pass finds nothing, and then writes into the version record that no
// item of the older layout is left, so that no client looks for any. Its start and its end
// are events of the audit.
//
// A dry run passes over the table once, counts, and writes nothing. tell receives the progress
// after each page, on the goroutine of the call; it may be nil.
//
// Run an interrupted run again: turned items stay turned. A run on a table whose version
// record says that no item is left does nothing. Errors: *ValidationError, *VersionError,
// *UnavailableError, *TableError, ErrLegacyWriters, ErrLegacyMalformed and ctx's own; the
// report has the progress.
func (a *Admin) Migrate(ctx context.Context, dryRun bool, tell func(MigrateReport)) (MigrateReport, error) {
	if err := a.d.Usable(ctx); err != nil {
		return MigrateReport{}, err
	}
	if err := a.mayMigrate(ctx, dryRun); err != nil {
		return MigrateReport{}, err
	}
	if a.d.Layout.Current() {
		return MigrateReport{DryRun: dryRun, Complete: true}, nil
	}
	migration := legacy.Migration{Turner: a.d.Layout.Turner, DryRun: dryRun}
	if tell != nil {
		migration.OnProgress = func(r legacy.Report) { tell(MigrateReport(r)) }
	}
	if dryRun {
		found, err := migration.Run(ctx)
		return MigrateReport(found), err
	}
	if err := a.recordMigration(ctx, deed{action: "migration_started", target: audit.System}); err != nil {
		return MigrateReport{}, err
	}
	defer a.d.Told.Everything()
	done, err := migration.Run(ctx)
	report := MigrateReport(done)
	err = a.endMigration(ctx, &report, err)
	return report, err
}

// opMigrate names a migration in errors.
const opMigrate = "migrate the table"

// mayMigrate reads the version record again, and returns a *fault.VersionError for a table that this version
// must not use. Unless dry is set, it first returns an error for a missing or invalid principal.
func (a *Admin) mayMigrate(ctx context.Context, dry bool) error {
	if !dry {
		if err := a.d.checkPrincipal(); err != nil {
			return err
		}
	}
	return a.d.Layout.Refresh(ctx)
}

// endMigration writes the last event of a migration that finished or left items, and returns err joined with
// its own error. Without err it also marks the version record, caches it, and sets report.Complete. An
// interrupted migration writes nothing.
func (a *Admin) endMigration(ctx context.Context, report *MigrateReport, err error) error {
	end := deed{action: "migration_finished", target: audit.System, after: migrationFields(report)}
	if errors.Is(err, ErrLegacyWriters) || errors.Is(err, ErrLegacyMalformed) {
		return errors.Join(err, a.recordMigration(ctx, end))
	}
	if err != nil {
		return err
	}
	marked, err := a.markMigrated(ctx, end)
	if err != nil {
		return err
	}
	report.Complete = true
	return a.d.Layout.Note(ctx, marked)
}

// recordMigration writes the audit event of a migration's start or end in a transaction of its own.
func (a *Admin) recordMigration(ctx context.Context, what deed) error {
	return a.d.Table.Change(ctx, opMigrate, func() (table.Proposal, error) { return a.d.propose(what) })
}

// markMigrated writes into the version record, with the event end, that no item of an older layout is left. It
// adds the record's fields to end, and returns the new record. It retries if another writer changes the record
// meanwhile.
func (a *Admin) markMigrated(ctx context.Context, end deed) (marked schema.Item, err error) {
	err = a.d.Table.Change(ctx, opMigrate, func() (table.Proposal, error) {
		old, err := a.d.Table.Get(ctx, opMigrate, schema.VersionKey())
		if err != nil {
			return table.Proposal{}, err
		}
		item, unchanged := a.d.Layout.Mark(old, a.d.Clock.Now())
		marked = item
		was, _ := schema.DecodeVersion(old)
		is, _ := schema.DecodeVersion(item)
		end.before = trail.Fields{"composite_only": was.CompositeOnly}
		if was.Schema != "" {
			end.before["schema_version"] = was.Schema
		}
		end.after["composite_only"], end.after["schema_version"] = is.CompositeOnly, is.Schema
		return a.d.propose(end, a.d.Table.PutPart(item, unchanged))
	})
	return marked, err
}

// migrationFields returns the counts of a report for the last event of a migration.
func migrationFields(r *MigrateReport) trail.Fields {
	return trail.Fields{
		"passes": r.Passes, "buckets": r.Buckets, "configs": r.Configs, "found": r.Found, "turned": r.Turned,
		"superseded": r.Superseded, "elsewhere": r.Elsewhere, "unreadable": r.Unreadable, "left": r.Left,
	}
}
