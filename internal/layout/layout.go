// Package layout checks a table by its version record. Every reader and writer refuses
// a table of another layout.
package layout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

const (
	// SchemaVersion is the version of the table's layout.
	SchemaVersion = "0.8.0"
	// ClientVersion is compared with a version record's client_min_version: the
	// version of zae-limiter whose tables we read and write.
	ClientVersion = "0.8.1"
	// ClientMinVersion is the oldest client that can use the layout.
	ClientMinVersion = "0.0.0"
	// Writer names us in the version record.
	Writer = "dynalimit"
	// TTL is the time for which a version record is cached.
	TTL = 10 * time.Minute

	opRead = "read the version record"
)

// Layout is the last read version record of a table. Its exported
// fields are set once, before it is used.
type Layout struct {
	Table *table.Table
	// Now returns the time by which the record expires.
	Now func() time.Time
	// Log receives the first layout that an operator should know about; nil for no log.
	Log *slog.Logger

	seen   atomic.Pointer[versionSeen]
	logged sync.Once
}

type versionSeen struct {
	at time.Time
	// compositeOnly means that no item of the layout before composite items is left.
	compositeOnly bool
	err           *fault.VersionError
}

// IsDue reports whether the version record must be read: at first, after TTL, and at every call while the table
// is refused.
func (l *Layout) IsDue() bool {
	seen := l.seen.Load()
	if seen == nil || seen.err != nil {
		return true
	}
	age := l.Now().Sub(seen.at)
	return age < 0 || age >= TTL
}

// NoteRecord checks and caches a version record; nil means a missing one. Unless the record is CompositeOnly,
// it also reads the one of zae-limiter 0.10. It returns a *VersionError for a table that this client cannot
// serve, or the read's error, and logs a notable layout once.
func (l *Layout) NoteRecord(ctx context.Context, item schema.Item) error {
	record, _ := schema.DecodeVersion(item)
	seen := &versionSeen{at: l.Now(), compositeOnly: record.CompositeOnly}
	level, text := slog.LevelWarn, ""
	switch record.Standing(SchemaVersion, ClientVersion) {
	case schema.Current:
		if !record.CompositeOnly {
			level, text = slog.LevelInfo, "items of an older layout are looked for, which costs queries; Admin.Migrate, once, ends that"
		}
	case schema.Missing:
		text = "the table has no version record: which layout it has is not known; Repository.CreateTable or Admin.Migrate writes one"
	case schema.Older:
		text = "the table has an older layout: its limits are read where they are, and a bucket is turned into today's by the first call that needs it; stop the writers of the older version, and run Admin.Migrate"
	case schema.Newer:
		text = "the table has a newer layout: what it adds is not known here; use a newer version of dynalimit"
	case schema.Incompatible:
		seen.err = l.versionError(record, "use a version of dynalimit that knows the table's layout, or another table")
	case schema.ClientTooOld:
		reason := "use a newer version of dynalimit: the table's version record refuses older clients"
		if record.KindsMin > schema.KnownKinds {
			reason = fmt.Sprintf("use a newer version of dynalimit: the table has limits of kinds of generation %d (kinds_min), and this one knows %d", record.KindsMin, schema.KnownKinds)
		}
		seen.err = l.versionError(record, reason)
	}
	if seen.err == nil && !record.CompositeOnly {
		foreign, err := l.readForeign(ctx)
		if err != nil {
			return err
		}
		seen.err = foreign
	}
	l.seen.Store(seen)
	if seen.err != nil {
		return seen.err
	}
	if text != "" {
		l.logOnce(ctx, level, record, text)
	}
	return nil
}

// readForeign reads the version record of zae-limiter 0.10 or later, and returns the error that refuses its
// table; nil if the table has none. An upgrade of zae-limiter leaves the older record in the table too, so that
// only this record shows the upgrade. It returns nil as well without permission to read.
func (l *Layout) readForeign(ctx context.Context) (*fault.VersionError, error) {
	item, err := l.Table.Get(ctx, opRead, schema.LaterVersionKey())
	if err != nil && !ddb.Classify(err, ctx).Setting {
		return nil, err
	}
	record, is := schema.DecodeVersion(item)
	if !is {
		return nil, nil
	}
	return l.versionError(record, "name another table: it is of zae-limiter 0.10 or later, whose buckets lie under other keys; 'dynalimit manifest export --from-zae "+l.Table.Name+"' writes its limits into a manifest (docs/from-zae-limiter.md)"), nil
}

// CheckForeign reads the version record that only zae-limiter 0.10 or later writes. It returns a *VersionError
// if the table has it, else the error of the read, and nil without permission to read.
func (l *Layout) CheckForeign(ctx context.Context) error {
	foreign, err := l.readForeign(ctx)
	if foreign != nil {
		return foreign
	}
	return err
}

// versionError returns the *VersionError of a table with a refused layout, with the reason.
func (l *Layout) versionError(v schema.VersionRecord, reason string) *fault.VersionError {
	return &fault.VersionError{Table: l.Table.Name, Schema: v.Schema, ClientMin: v.ClientMin, KnownSchema: SchemaVersion, Client: ClientVersion, Reason: reason}
}

// KindError returns a *VersionError if err is about a limit of an unknown kind, which is stored at where. It
// returns any other error unchanged.
func (l *Layout) KindError(where string, err error) error {
	unknown, ok := errors.AsType[*schema.UnknownKind](err)
	if !ok {
		return err
	}
	return &fault.VersionError{
		Table: l.Table.Name, Kind: unknown.Name, KnownSchema: SchemaVersion, Client: ClientVersion,
		Reason: fmt.Sprintf("%s: %v; use a newer version of dynalimit", where, unknown),
	}
}

// logOnce logs a layout for the operator, the first time only. It does nothing without a log.
func (l *Layout) logOnce(ctx context.Context, level slog.Level, v schema.VersionRecord, text string) {
	if l.Log == nil {
		return
	}
	l.logged.Do(func() {
		l.Log.Log(ctx, level, text, slog.String("table", l.Table.Name), slog.String("layout", v.Schema), slog.String("known", SchemaVersion))
	})
}

// Check returns a *VersionError for a table with a layout that this client must not use. It reads the version
// record only if none is cached, or while the table is refused.
func (l *Layout) Check(ctx context.Context) error {
	if seen := l.seen.Load(); seen != nil && seen.err == nil {
		return nil
	}
	return l.Refresh(ctx)
}

// Refresh reads the version record and caches it. It returns a *VersionError as NoteRecord does, or the error
// of the read.
func (l *Layout) Refresh(ctx context.Context) error {
	item, err := l.Table.Get(ctx, opRead, schema.VersionKey())
	if err != nil {
		return err
	}
	return l.NoteRecord(ctx, item)
}

// CompositeOnly reports whether the cached version record says that no item of the older layout is left. It is
// false before the first read.
func (l *Layout) CompositeOnly() bool {
	seen := l.seen.Load()
	return seen != nil && seen.compositeOnly
}

// MalformedError returns the error for callers about a bucket that cannot be decoded. It is a *VersionError for
// a limit of an unknown kind, else err with a remedy.
func (l *Layout) MalformedError(err error) error {
	if unknown := l.KindError("a bucket", err); errors.Is(unknown, fault.ErrVersion) {
		return unknown
	}
	return fmt.Errorf("dynalimit: a bucket of table %q is malformed: %w; delete the item; the next call creates it again", l.Table.Name, err)
}
