package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
