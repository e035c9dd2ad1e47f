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

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// tableWait bounds how long CreateTable waits for the table.
	tableWait = 10 * time.Minute
	// firstPoll and longestPoll bound the time between two looks at it.
	firstPoll, longestPoll = 20 * time.Millisecond, 2 * time.Second
)

// CreateTable makes the table, waits until it and its indexes can be used, and
// enables TTL. A table that is there already is checked and left as it is, so
// every process may call it. It fails with a *TableError when the table is not
// one of ours and when it is not ready within 10 minutes, and with a *VersionError when
// its layout is a newer one.
//
// The SDK may retry each request: a second creation finds the table, a second
// enabling finds it enabled, and the version record is only written when absent.
// What a table of another tool lacks or costs more is logged.
func (r *Repository) CreateTable(ctx context.Context) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	table, err := r.describeTable(ctx)
	if err != nil {
		return err
	}
	made := false
	if table == nil {
		if made, err = r.requestTable(ctx); err != nil {
			return err
		}
	}
	if table, err = r.awaitTable(ctx, table); err != nil {
		return err
	}
	if faults := tableFaults(table); faults != "" {
		return &TableError{Table: r.table, Reason: "is not a dynalimit table: " + faults + "; name another table, or make this one from Repository.TableInput"}
	}
	for _, remark := range tableRemarks(table) {
		r.log.WarnContext(ctx, "table: "+remark, slog.String("table", r.table))
	}
	if err := r.writeVersion(ctx, made); err != nil {
		return err
	}
	return r.enableTTL(ctx)
}

// describeTable returns nil when there is no such table.
func (r *Repository) describeTable(ctx context.Context) (*types.TableDescription, error) {
	out, err := r.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &r.table})
	var missing *types.ResourceNotFoundException
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, r.store.Failure("describe the table", err)
	}
	return out.Table, nil
}

// requestTable reports whether this request made the table.
func (r *Repository) requestTable(ctx context.Context) (made bool, err error) {
	_, err = r.client.CreateTable(ctx, r.TableInput())
	var exists *types.ResourceInUseException
	if errors.As(err, &exists) { // another process was faster
		return false, nil
	}
	return err == nil, r.store.Failure("create the table", err)
}

// awaitTable looks until the table and its indexes are active.
func (r *Repository) awaitTable(ctx context.Context, table *types.TableDescription) (*types.TableDescription, error) {
	waiting, cancel := context.WithTimeout(ctx, tableWait)
	defer cancel()
	for poll := firstPoll; ; poll = min(2*poll, longestPoll) {
		if table != nil && tableReady(table) {
			return table, nil
		}
		var err error
		if table, err = r.describeTable(waiting); err != nil {
			return nil, err
		}
		if table != nil && tableReady(table) {
			return table, nil
		}
		if ddb.Sleep(waiting, poll) {
			continue
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("dynalimit: wait for table %q: %w", r.table, ctx.Err())
		}
		return nil, &TableError{Table: r.table, Reason: fmt.Sprintf("is not active after %v; look at its status and call CreateTable again", tableWait), Err: waiting.Err()}
	}
}

// enableTTL lets DynamoDB delete expired items. It looks first, for enabling
// twice is an error.
func (r *Repository) enableTTL(ctx context.Context) error {
	enabled, err := r.ttlEnabled(ctx)
	if enabled || err != nil {
		return err
	}
	_, err = r.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &r.table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(schema.TTL), Enabled: aws.Bool(true)},
	})
	if err == nil {
		return nil
	}
	if enabled, describeErr := r.ttlEnabled(ctx); enabled && describeErr == nil { // another process was faster
		return nil
	}
	return r.store.Failure("enable TTL", err)
}

func (r *Repository) ttlEnabled(ctx context.Context) (bool, error) {
	out, err := r.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &r.table})
	if err != nil {
		return false, r.store.Failure("describe TTL", err)
	}
	ttl := out.TimeToLiveDescription
	if ttl == nil || ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabled && ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabling {
		return false, nil
	}
	if name := aws.ToString(ttl.AttributeName); name != schema.TTL {
		return false, &TableError{Table: r.table, Reason: fmt.Sprintf("expires items by the attribute %q, want %q; disable its TTL and call CreateTable again", name, schema.TTL)}
	}
	return true, nil
}

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
			r.tellVersion(ctx, slog.LevelInfo, record, "items of an older layout are looked for, which costs queries; Admin.Migrate, once, ends that")
		}
	case schema.Missing:
		if seen.err = r.laterLayout(ctx); seen.err != nil {
			break
		}
		r.tellVersion(ctx, slog.LevelWarn, record, "the table has no version record: which layout it has is not known; Repository.CreateTable or Admin.Migrate writes one")
	case schema.Older:
		r.tellVersion(ctx, slog.LevelWarn, record, "the table has an older layout: items of it are turned into today's as they are met; stop the writers of the older version, and run Admin.Migrate")
	case schema.Newer:
		r.tellVersion(ctx, slog.LevelWarn, record, "the table has a newer layout: what it adds is not known here; use a newer version of dynalimit")
	case schema.Incompatible:
		seen.err = r.versionError(record, "use a version of dynalimit that knows the table's layout, or another table")
	case schema.ClientTooOld:
		reason := "use a newer version of dynalimit: the table's version record refuses older clients"
		if record.KindsMin > schema.KnownKinds {
			reason = fmt.Sprintf("use a newer version of dynalimit: the table has limits of kinds of generation %d (kinds_min), and this one knows %d", record.KindsMin, schema.KnownKinds)
		}
		seen.err = r.versionError(record, reason)
	}
	r.version.seen.Store(seen)
	if seen.err != nil {
		return seen.err
	}
	return nil
}

// laterLayout is the error of a table of zae-limiter 0.9 or later: nil for another one, and
// where it cannot be told, which a role may not be allowed to.
func (r *Repository) laterLayout(ctx context.Context) *VersionError {
	item, _ := r.store.Get(ctx, "read the version record", schema.LaterVersionKey())
	record, is := schema.DecodeVersion(item)
	if !is {
		return nil
	}
	return r.versionError(record, "name another table: it is of zae-limiter 0.9 or later, whose buckets lie under other keys and cannot be taken over (docs/from-zae-limiter.md)")
}

func (r *Repository) versionError(v schema.VersionRecord, reason string) *VersionError {
	return &VersionError{Table: r.table, Schema: v.Schema, ClientMin: v.ClientMin, KnownSchema: schemaVersion, Client: clientVersion, Reason: reason}
}

// kindError is the *VersionError of an error that is about a limit of an unknown kind, at
// where; any other error is as it was.
func (r *Repository) kindError(where string, err error) error {
	unknown, ok := errors.AsType[*schema.UnknownKind](err)
	if !ok {
		return err
	}
	return &VersionError{
		Table: r.table, Kind: unknown.Name, KnownSchema: schemaVersion, Client: clientVersion,
		Reason: fmt.Sprintf("%s: %v; use a newer version of dynalimit", where, unknown),
	}
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
	item, err := r.store.Get(ctx, "read the version record", schema.VersionKey())
	if err != nil {
		return err
	}
	return r.noteVersion(ctx, item)
}

// writeVersion records the layout's version, unless a record is there: another
// implementation may have written it. On a table that was made by this call, or that
// holds nothing, nothing of an older layout can be, and the record says so.
func (r *Repository) writeVersion(ctx context.Context, made bool) error {
	if !made {
		if later := r.laterLayout(ctx); later != nil {
			return later
		}
	}
	record := schema.VersionRecord{
		Schema: schemaVersion, ClientMin: clientMinVersion, CompositeOnly: made, UpdatedBy: writer, UpdatedAt: r.clock.Now(),
	}
	item := record.Item()
	_, err := r.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &r.table, Item: item, ConditionExpression: aws.String(schema.CreateCondition),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if judge(err) != refused {
		if err != nil {
			return r.store.Failure("write the version record", err)
		}
		if err := r.noteVersion(ctx, item); err != nil || made || !r.holdsNothing(ctx) {
			return err
		}
		return r.markMade(ctx)
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

// holdsNothing reports whether the table has its version record alone, as one that a
// template made. Whoever may not look is told no: Migrate says it later.
func (r *Repository) holdsNothing(ctx context.Context) bool {
	out, err := r.client.Scan(ctx, &dynamodb.ScanInput{TableName: &r.table, Limit: aws.Int32(2), ConsistentRead: aws.Bool(true)})
	return err == nil && len(out.LastEvaluatedKey) == 0 && len(out.Items) == 1
}

// markMade marks the record of a table on which nothing of an older layout is: one that
// this call made, but whose record another process, which found the table there, wrote
// first, or one that holds nothing.
func (r *Repository) markMade(ctx context.Context) error {
	st := schema.MarkComposite(writer)
	out, err := r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &r.table, Key: schema.VersionKey().Attributes(),
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
