package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

const (
	// schemaVersion is the version of the table's layout.
	schemaVersion = "0.8.0"
	// clientVersion is what a version record compares with its client_min_version: the
	// version of zae-limiter whose tables we read and write.
	clientVersion = "0.8.1"
	// clientMinVersion is the oldest client that can use the layout.
	clientMinVersion = "0.0.0"
	// writer names us in the version record.
	writer = "dynalimit"
	// versionTTL is how long what the version record says is believed.
	versionTTL = 10 * time.Minute
)

// layout is what the table's version record said when it was last read.
type layout struct {
	table *table.Table
	clock *ddb.Clock
	log   *slog.Logger

	seen atomic.Pointer[versionSeen]
	told sync.Once // the operator, once in the life of the repository
}

type versionSeen struct {
	at time.Time
	// compositeOnly means that no item of the layout before composite items is left.
	compositeOnly bool
	err           *fault.VersionError
}

// due reports whether the version record has to be read: at first, after
// versionTTL, and each time while the table is refused.
func (l *layout) due() bool {
	seen := l.seen.Load()
	if seen == nil || seen.err != nil {
		return true
	}
	age := l.clock.Source().Sub(seen.at)
	return age < 0 || age >= versionTTL
}

// note notes what the version record says, nil for no record. It fails with a
// *VersionError for a layout that this client does not know. The first layout that an
// operator should know about is logged.
func (l *layout) note(ctx context.Context, item schema.Item) error {
	record, _ := schema.DecodeVersion(item)
	seen := &versionSeen{at: l.clock.Source(), compositeOnly: record.CompositeOnly}
	switch record.Standing(schemaVersion, clientVersion) {
	case schema.Current:
		if !record.CompositeOnly {
			l.tell(ctx, slog.LevelInfo, record, "items of an older layout are looked for, which costs queries; Admin.Migrate, once, ends that")
		}
	case schema.Missing:
		if seen.err = l.later(ctx); seen.err != nil {
			break
		}
		l.tell(ctx, slog.LevelWarn, record, "the table has no version record: which layout it has is not known; Repository.CreateTable or Admin.Migrate writes one")
	case schema.Older:
		l.tell(ctx, slog.LevelWarn, record, "the table has an older layout: items of it are turned into today's as they are met; stop the writers of the older version, and run Admin.Migrate")
	case schema.Newer:
		l.tell(ctx, slog.LevelWarn, record, "the table has a newer layout: what it adds is not known here; use a newer version of dynalimit")
	case schema.Incompatible:
		seen.err = l.refusal(record, "use a version of dynalimit that knows the table's layout, or another table")
	case schema.ClientTooOld:
		reason := "use a newer version of dynalimit: the table's version record refuses older clients"
		if record.KindsMin > schema.KnownKinds {
			reason = fmt.Sprintf("use a newer version of dynalimit: the table has limits of kinds of generation %d (kinds_min), and this one knows %d", record.KindsMin, schema.KnownKinds)
		}
		seen.err = l.refusal(record, reason)
	}
	l.seen.Store(seen)
	if seen.err != nil {
		return seen.err
	}
	return nil
}

// later is the error of a table of zae-limiter 0.9 or later: nil for another one, and
// where it cannot be told, which a role may not be allowed to.
func (l *layout) later(ctx context.Context) *fault.VersionError {
	item, _ := l.table.Get(ctx, "read the version record", schema.LaterVersionKey())
	record, is := schema.DecodeVersion(item)
	if !is {
		return nil
	}
	return l.refusal(record, "name another table: it is of zae-limiter 0.9 or later, whose buckets lie under other keys and cannot be taken over (docs/from-zae-limiter.md)")
}

// refusal is the error of a table whose layout is not used.
func (l *layout) refusal(v schema.VersionRecord, reason string) *fault.VersionError {
	return &fault.VersionError{Table: l.table.Name, Schema: v.Schema, ClientMin: v.ClientMin, KnownSchema: schemaVersion, Client: clientVersion, Reason: reason}
}

// kindError is the *VersionError of an error that is about a limit of an unknown kind, at
// where; any other error is as it was.
func (l *layout) kindError(where string, err error) error {
	unknown, ok := errors.AsType[*schema.UnknownKind](err)
	if !ok {
		return err
	}
	return &fault.VersionError{
		Table: l.table.Name, Kind: unknown.Name, KnownSchema: schemaVersion, Client: clientVersion,
		Reason: fmt.Sprintf("%s: %v; use a newer version of dynalimit", where, unknown),
	}
}

// tell tells the operator of a layout, once.
func (l *layout) tell(ctx context.Context, level slog.Level, v schema.VersionRecord, text string) {
	l.told.Do(func() {
		l.log.Log(ctx, level, text, slog.String("table", l.table.Name), slog.String("layout", v.Schema), slog.String("known", schemaVersion))
	})
}

// check refuses a change of a table whose layout is not known. It reads the
// version record if no call of the repository has, and while the table is refused.
func (l *layout) check(ctx context.Context) error {
	if seen := l.seen.Load(); seen != nil && seen.err == nil {
		return nil
	}
	item, err := l.table.Get(ctx, "read the version record", schema.VersionKey())
	if err != nil {
		return err
	}
	return l.note(ctx, item)
}

// compositeOnly reports whether the version record says that no item of the older layout is
// left.
func (l *layout) compositeOnly() bool {
	seen := l.seen.Load()
	return seen != nil && seen.compositeOnly
}

// malformed is the error of a bucket that cannot be understood.
func (l *layout) malformed(err error) error {
	if unknown := l.kindError("a bucket", err); errors.Is(unknown, fault.ErrVersion) {
		return unknown
	}
	return fmt.Errorf("dynalimit: a bucket of table %q is malformed: %w; delete the item and it is made anew", l.table.Name, err)
}

// configKindError is kindError for what levels of configuration say.
func (l *layout) configKindError(err error) error {
	if wrong, ok := errors.AsType[*config.Malformed](err); ok {
		return l.kindError(storedField(wrong.Level), err)
	}
	return err
}
