package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/audit"
	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/legacy"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Items of the layout before composite items, one for each limit, are turned into today's
// as they are met, and by Migrate. Where the version record says that none is left, nobody
// looks for any.

// ErrLegacyWriters is the error of a Migrate that found items of the older layout in each
// of its passes: their writers have not been stopped.
var ErrLegacyWriters = legacy.ErrWriters

// ErrLegacyMalformed is the error of a Migrate that turned everything but items that cannot
// be understood: MigrateReport.Malformed names them.
var ErrLegacyMalformed = legacy.ErrMalformed

// MigrateOptions are the options of Migrate. The zero value is one that writes.
type MigrateOptions struct {
	// DryRun looks through the table once, counts, and writes nothing. Defaults to false.
	DryRun bool
	// OnProgress is told after each page that was read, by the goroutine that called
	// Migrate. Defaults to nobody.
	OnProgress func(MigrateProgress)
}

// MigrateReport is what a migration did, or what a dry run found.
type MigrateReport = legacy.Report

// MigrateProgress is how far a migration is.
type MigrateProgress = legacy.Progress

// Migrate turns every item of the layout before composite items into today's, in the whole
// table, whatever its namespace: buckets at their level, configurations with the limits
// that they said. It may run beside calls, which turn what they meet themselves, and beside
// another Migrate; the writers of the older layout must have been stopped. It looks through
// the table until a pass finds nothing, and then writes into the version record that no
// item of the older layout is left, so that no client looks for any. Its start and its end
// are events of the audit.
//
// A run that was ended in any way is run again: what is turned stays turned. A run on a
// table whose record says that nothing is left does nothing. Errors: *ValidationError,
// *VersionError, *UnavailableError, *TableError, ErrLegacyWriters, ErrLegacyMalformed and
// ctx's own; the report says how far it came.
func (r *Repository) Migrate(ctx context.Context, opts *MigrateOptions) (MigrateReport, error) {
	if err := r.usable(ctx); err != nil {
		return MigrateReport{}, err
	}
	var o MigrateOptions
	if opts != nil {
		o = *opts
	}
	by, err := r.mayMigrate(ctx, o.DryRun)
	if err != nil {
		return MigrateReport{}, err
	}
	if r.compositeOnly() {
		return MigrateReport{DryRun: o.DryRun, Complete: true}, nil
	}
	migration := legacy.Migration{Turner: r.turner, DryRun: o.DryRun, OnProgress: o.OnProgress}
	if o.DryRun {
		return migration.Run(ctx)
	}
	if err := r.admin.RecordMigration(ctx, by, opMigrate, admin.MigrationStarted, nil); err != nil {
		return MigrateReport{}, err
	}
	defer r.configs.evict(func(configKey) bool { return true })
	report, err := migration.Run(ctx)
	err = r.endMigration(ctx, by, &report, err)
	return report, err
}

// opMigrate names a migration in errors.
const opMigrate = "migrate the table"

// mayMigrate reads the version record afresh. It returns who migrates, nobody for a dry
// run.
func (r *Repository) mayMigrate(ctx context.Context, dry bool) (by string, err error) {
	if !dry {
		if by, err = r.principal(); err != nil {
			return "", err
		}
	}
	record, err := r.store.Get(ctx, opMigrate, r.keys.Version())
	if err != nil {
		return "", err
	}
	return by, r.noteVersion(ctx, record)
}

// endMigration records the end of a migration that came to one, and marks the version
// record if nothing is left.
func (r *Repository) endMigration(ctx context.Context, by string, report *MigrateReport, err error) error {
	if errors.Is(err, ErrLegacyWriters) || errors.Is(err, ErrLegacyMalformed) {
		return errors.Join(err, r.admin.RecordMigration(ctx, by, opMigrate, admin.MigrationFinished, migrationFields(report)))
	}
	if err != nil {
		return err
	}
	marked, err := r.admin.MarkMigrated(ctx, by, opMigrate, migrationFields(report), func(old schema.Item, now time.Time) (schema.Item, schema.Statement) {
		return r.keys.MarkedVersion(old, schemaVersion, clientVersion, writer, now)
	})
	if err != nil {
		return err
	}
	report.Complete = true
	return r.noteVersion(ctx, marked)
}

// migrationFields are what an event says of the end of a migration.
func migrationFields(r *MigrateReport) audit.Fields {
	return audit.Fields{
		"passes": r.Passes, "buckets": r.Buckets, "configs": r.Configs, "found": r.Found, "turned": r.Turned,
		"superseded": r.Superseded, "elsewhere": r.Elsewhere, "unreadable": r.Unreadable, "left": r.Left,
	}
}

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

// mayRead refuses a table whose layout is not known, and turns the limits of an owner that
// are to be read.
func (r *Repository) mayRead(ctx context.Context, owner schema.ConfigOwner) error {
	if err := r.checkVersion(ctx); err != nil {
		return err
	}
	_, err := r.takeOverConfig(ctx, owner)
	return err
}

// mayReadAll is mayRead for many owners.
func (r *Repository) mayReadAll(ctx context.Context, owners []schema.ConfigOwner) error {
	if err := r.checkVersion(ctx); err != nil || r.compositeOnly() {
		return err
	}
	turning, ctx := errgroup.WithContext(ctx)
	turning.SetLimit(mostTakeOvers)
	for _, owner := range owners {
		turning.Go(func() error {
			_, err := r.takeOverConfig(ctx, owner)
			return within(fmt.Sprintf("%s: ", scopeOf(owner)), err)
		})
	}
	return turning.Wait()
}

// takeOverEntity turns all limits of an entity where they are in the older layout.
func (r *Repository) takeOverEntity(ctx context.Context, id string) error {
	if r.compositeOnly() {
		return nil
	}
	_, err := r.turner.Configs(ctx, r.keys.Entity(id))
	return r.orMalformed(err)
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
