package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/schema"
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

// ErrVersion matches a *VersionError.
var ErrVersion = errors.New("dynalimit: the table's layout needs another version of dynalimit")

// VersionError says that the table has a layout which this version of dynalimit does not
// know. Nothing was written. It is no outage: no policy admits a call because of it.
type VersionError struct {
	// Table is the name that was given to NewRepository.
	Table string
	// Schema is the version of the table's layout, as its version record has it.
	Schema string
	// ClientMin is the oldest client that the record allows, "" for any.
	ClientMin string
	// KnownSchema and Client are this version's: the layout that it knows, and what it
	// compares with ClientMin.
	KnownSchema, Client string
	// Reason says what is wrong and how to make it right.
	Reason string
}

// Error names the table, both versions and what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("dynalimit: table %q has layout %q (its clients: %q or later), this client knows layout %q (as client %q): %s",
		e.Table, e.Schema, e.ClientMin, e.KnownSchema, e.Client, e.Reason)
}

// Is matches ErrVersion.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// tableVersion is what the table's version record said when it was last read.
type tableVersion struct {
	seen atomic.Pointer[versionSeen]
	told sync.Once
}

type versionSeen struct {
	at time.Time
	// compositeOnly means that no item of the layout before composite items is left.
	compositeOnly bool
	err           *VersionError
}

// versionDue reports whether the version record has to be read: at first, after
// versionTTL, and each time while the table is refused.
func (r *Repository) versionDue() bool {
	seen := r.version.seen.Load()
	if seen == nil || seen.err != nil {
		return true
	}
	age := r.clock.Source().Sub(seen.at)
	return age < 0 || age >= versionTTL
}

// noteVersion notes what the version record says, nil for no record. It fails with a
// *VersionError for a layout that this client does not know. The first layout that an
// operator should know about is logged.
func (r *Repository) noteVersion(ctx context.Context, item schema.Item) error {
	record, _ := schema.DecodeVersion(item)
	seen := &versionSeen{at: r.clock.Source(), compositeOnly: record.CompositeOnly}
	switch record.Standing(schemaVersion, clientVersion) {
	case schema.Current:
		if !record.CompositeOnly {
			r.tellVersion(ctx, slog.LevelInfo, record, "items of an older layout are looked for, which costs queries; Repository.Migrate, once, ends that")
		}
	case schema.Missing:
		r.tellVersion(ctx, slog.LevelWarn, record, "the table has no version record: which layout it has is not known; Repository.CreateTable or Repository.Migrate writes one")
	case schema.Older:
		r.tellVersion(ctx, slog.LevelWarn, record, "the table has an older layout: items of it are turned into today's as they are met; stop the writers of the older version, and run Repository.Migrate")
	case schema.Newer:
		r.tellVersion(ctx, slog.LevelWarn, record, "the table has a newer layout: what it adds is not known here; use a newer version of dynalimit")
	case schema.Incompatible:
		seen.err = r.versionError(record, "use a version of dynalimit that knows the table's layout, or another table")
	case schema.ClientTooOld:
		seen.err = r.versionError(record, "use a newer version of dynalimit: the table's version record refuses older clients")
	}
	r.version.seen.Store(seen)
	if seen.err != nil {
		return seen.err
	}
	return nil
}

func (r *Repository) versionError(v schema.VersionRecord, reason string) *VersionError {
	return &VersionError{Table: r.table, Schema: v.Schema, ClientMin: v.ClientMin, KnownSchema: schemaVersion, Client: clientVersion, Reason: reason}
}

// tellVersion tells the operator once in the life of the repository.
func (r *Repository) tellVersion(ctx context.Context, level slog.Level, v schema.VersionRecord, text string) {
	r.version.told.Do(func() {
		r.log.Log(ctx, level, text, slog.String("table", r.table), slog.String("layout", v.Schema), slog.String("known", schemaVersion))
	})
}

// checkVersion refuses a change of a table whose layout is not known. It reads the
// version record if no call of the repository has, and while the table is refused.
func (r *Repository) checkVersion(ctx context.Context) error {
	if seen := r.version.seen.Load(); seen != nil && seen.err == nil {
		return nil
	}
	item, err := r.store.Get(ctx, "read the version record", r.keys.Version())
	if err != nil {
		return err
	}
	return r.noteVersion(ctx, item)
}

// writeVersion records the layout's version, unless a record is there: another
// implementation may have written it. On a table that was made by this call nothing of
// an older layout can be, and the record says so.
func (r *Repository) writeVersion(ctx context.Context, made bool) error {
	record := schema.VersionRecord{
		Schema: schemaVersion, ClientMin: clientMinVersion, CompositeOnly: made, UpdatedBy: writer, UpdatedAt: r.clock.Now(),
	}
	item := r.keys.EncodeVersion(record)
	_, err := r.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &r.table, Item: item, ConditionExpression: aws.String(schema.CreateCondition),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if judge(err) != refused {
		if err != nil {
			return r.store.Failure("write the version record", err)
		}
		return r.noteVersion(ctx, item)
	}
	var there *types.ConditionalCheckFailedException
	if !errors.As(err, &there) {
		return r.store.Failure("write the version record", err)
	}
	if err := r.noteVersion(ctx, there.Item); err != nil || !made || r.version.seen.Load().compositeOnly {
		return err
	}
	return r.markMade(ctx)
}

// markMade marks the record of a table that this call made, but whose record another
// process, which found the table there, wrote first.
func (r *Repository) markMade(ctx context.Context) error {
	st := schema.MarkComposite(writer)
	out, err := r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &r.table, Key: r.keys.Version().Attributes(),
		UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		ReturnValues: types.ReturnValueAllNew,
	})
	switch {
	case judge(err) == refused: // of another implementation
		return nil
	case err != nil:
		return r.store.Failure("write the version record", err)
	}
	return r.noteVersion(ctx, out.Attributes)
}
