package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// index is a global secondary index of the table. Indexes do not project attributes that an acquire
// changes. So an acquire writes no index, and a popular resource makes no hot partition.
type index struct {
	name, hash, sort string
	// projected are the attributes in addition to the keys.
	projected []string
}

var indexes = []index{
	{schema.IndexChildren, schema.GSI1PK, schema.GSI1SK, schema.EntityAttributes},
	{schema.IndexResource, schema.GSI2PK, schema.GSI2SK, nil},
	{schema.IndexEntityConfigs, schema.GSI3PK, schema.GSI3SK, nil},
}

// TableInput returns the request that creates the table, for CreateTable and for infrastructure code. Enable
// TTL on the attribute "ttl" too.
func (r *Repository) TableInput() *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:   aws.String(r.Table()),
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   keySchema(schema.PK, schema.SK),
		StreamSpecification: &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages,
		},
	}
	names := []string{schema.PK, schema.SK}
	for _, x := range indexes {
		names = append(names, x.hash, x.sort)
		projection := &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}
		if len(x.projected) > 0 {
			projection = &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: slices.Clone(x.projected)}
		}
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(x.name), KeySchema: keySchema(x.hash, x.sort), Projection: projection,
		})
	}
	for _, name := range names {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS,
		})
	}
	return in
}

// keySchema returns the schema of a primary key with a hash and a sort attribute.
func keySchema(hash, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}

// tableFaults returns a text about wrong keys, else about missing indexes, that make a table unusable, with the
// fix; "" if it is usable. It ignores the projections of indexes: others cost more, but nothing depends on
// them.
func tableFaults(want *dynamodb.CreateTableInput, described *types.TableDescription) string {
	var faults, missing []string
	for _, f := range table.CompareKeys(want, described) {
		what := "it"
		if f.Index != "" {
			what = "index " + f.Index
		}
		if f.Found == "" {
			missing = append(missing, f.Index)
		} else {
			faults = append(faults, fmt.Sprintf("%s has the key (%s), want (%s)", what, f.Found, f.Want))
		}
	}
	switch {
	case len(faults) > 0:
		return "is not a dynalimit table: " + strings.Join(faults, "; ") + "; name another table"
	case len(missing) > 0: // as zae-limiter up to 0.7 made it
		return "lacks the indexes " + strings.Join(missing, ", ") + "; 'dynalimit doctor' prints the commands of AWS that add them, and Repository.TableInput describes them"
	}
	return ""
}

// tableRemarks returns texts for the operator about a costly projection of the resource index, and about a
// missing stream of new and old images. It returns nil without such shortcomings.
func tableRemarks(table *types.TableDescription) []string {
	var remarks []string
	for _, x := range table.GlobalSecondaryIndexes {
		if aws.ToString(x.IndexName) == schema.IndexResource && x.Projection != nil && x.Projection.ProjectionType == types.ProjectionTypeAll {
			remarks = append(remarks, "index "+schema.IndexResource+" projects all attributes: every acquire is charged for it as well; KEYS_ONLY is enough")
		}
	}
	if s := table.StreamSpecification; s == nil || s.StreamViewType != types.StreamViewTypeNewAndOldImages {
		remarks = append(remarks, "it has no stream of new and old images: usage cannot be aggregated from it")
	}
	return remarks
}

// isTableReady reports whether a table and our indexes of it are active or being updated, and so can be used.
// It ignores missing indexes, which tableFaults names.
func isTableReady(table *types.TableDescription) bool {
	if table.TableStatus != types.TableStatusActive && table.TableStatus != types.TableStatusUpdating {
		return false
	}
	for _, x := range table.GlobalSecondaryIndexes {
		ours := slices.ContainsFunc(indexes, func(want index) bool { return want.name == aws.ToString(x.IndexName) })
		if ours && x.IndexStatus != types.IndexStatusActive && x.IndexStatus != types.IndexStatusUpdating {
			return false
		}
	}
	return true
}

const (
	// tableWait bounds how long CreateTable waits for the table.
	tableWait = 10 * time.Minute
	// firstPoll and longestPoll bound the time between two polls.
	firstPoll, longestPoll = 20 * time.Millisecond, 2 * time.Second
)

// CreateTable makes the table, waits until it and its indexes can be used, and enables TTL. It checks
// an existing table and leaves it as it is, so every process may call it. It fails with a
// *fault.TableError if the table is not one of ours or is not ready within 10 minutes, and with a
// *fault.VersionError if its layout is newer.
//
// The SDK may retry each request: a second creation finds the table, a second enabling finds it
// enabled, and the version record is only written when absent. It logs shortcomings and extra costs of
// a table made by another tool.
func (r *Repository) CreateTable(ctx context.Context) error {
	if err := r.checkUsable(ctx); err != nil {
		return err
	}
	m := tableMaker{r.connection}
	table, err := m.describe(ctx)
	if err != nil {
		return err
	}
	made := false
	if table == nil {
		if made, err = m.requestTable(ctx, r.TableInput()); err != nil {
			return err
		}
	}
	if table, err = m.awaitReady(ctx, table); err != nil {
		return err
	}
	if faults := tableFaults(r.TableInput(), table); faults != "" {
		return &fault.TableError{Table: r.table, Reason: faults}
	}
	for _, remark := range tableRemarks(table) {
		r.log.WarnContext(ctx, "table: "+remark, slog.String("table", r.table))
	}
	if err := m.writeVersion(ctx, made); err != nil {
		return err
	}
	return m.enableTTL(ctx)
}

// tableMaker makes the table of a repository, part by part. Each part may exist already.
type tableMaker struct{ *connection }

// describe reads the description of the table from DynamoDB. It returns nil without an error if the table does
// not exist.
func (m tableMaker) describe(ctx context.Context) (*types.TableDescription, error) {
	out, err := m.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &m.table})
	var missing *types.ResourceNotFoundException
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, m.store.Failure("describe the table", err)
	}
	return out.Table, nil
}

// requestTable asks DynamoDB to create the table, and does not wait for it. made is false, without an error, if
// another process has created it.
func (m tableMaker) requestTable(ctx context.Context, table *dynamodb.CreateTableInput) (made bool, err error) {
	_, err = m.client.CreateTable(ctx, table)
	var exists *types.ResourceInUseException
	if errors.As(err, &exists) { // another process was faster
		return false, nil
	}
	return err == nil, m.store.Failure("create the table", err)
}

// awaitReady polls until the table and our indexes can be used, and returns the description. table is the
// description known so far, or nil. It fails with ctx's error if that ends, and after 10 minutes with a
// *fault.TableError.
func (m tableMaker) awaitReady(ctx context.Context, table *types.TableDescription) (*types.TableDescription, error) {
	waiting, cancel := context.WithTimeout(ctx, tableWait)
	defer cancel()
	for poll := firstPoll; ; poll = min(2*poll, longestPoll) {
		if table != nil && isTableReady(table) {
			return table, nil
		}
		var err error
		if table, err = m.describe(waiting); err != nil {
			return nil, err
		}
		if table != nil && isTableReady(table) {
			return table, nil
		}
		if ddb.Sleep(waiting, poll) {
			continue
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("dynalimit: wait for table %q: %w", m.table, ctx.Err())
		}
		return nil, &fault.TableError{Table: m.table, Reason: fmt.Sprintf("is not active after %v; look at its status, and complete it", tableWait), Fix: fault.CreateTable, Err: waiting.Err()}
	}
}

// enableTTL lets DynamoDB delete expired items by the attribute ttl. It does nothing if that is enabled
// already, because enabling twice is an error. TTL by another attribute is a *fault.TableError.
func (m tableMaker) enableTTL(ctx context.Context) error {
	enabled, err := m.ttlEnabled(ctx)
	if enabled || err != nil {
		return err
	}
	_, err = m.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &m.table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(schema.TTL), Enabled: aws.Bool(true)},
	})
	if err == nil {
		return nil
	}
	if enabled, describeErr := m.ttlEnabled(ctx); enabled && describeErr == nil { // another process was faster
		return nil
	}
	return m.store.Failure("enable TTL", err)
}

// ttlEnabled reports whether DynamoDB deletes expired items, or is about to. It returns a *fault.TableError if
// it does so by another attribute.
func (m tableMaker) ttlEnabled(ctx context.Context) (bool, error) {
	out, err := m.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &m.table})
	if err != nil {
		return false, m.store.Failure("describe TTL", err)
	}
	ttl := out.TimeToLiveDescription
	if ttl == nil || ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabled && ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabling {
		return false, nil
	}
	if name := aws.ToString(ttl.AttributeName); name != schema.TTL {
		return false, &fault.TableError{Table: m.table, Reason: fmt.Sprintf("expires items by the attribute %q, want %q; disable its TTL, and complete it", name, schema.TTL), Fix: fault.CreateTable}
	}
	return true, nil
}

// writeVersion writes the version record unless one exists, and caches the stored one. It marks the record of a
// table that this call made, or that is empty, as without items of an older layout. It fails with a
// *fault.VersionError for a layout that this version must not use.
func (m tableMaker) writeVersion(ctx context.Context, made bool) error {
	if !made {
		if err := m.layout.CheckForeign(ctx); err != nil {
			return err
		}
	}
	record := schema.VersionRecord{
		Schema: layout.SchemaVersion, ClientMin: layout.ClientMinVersion, CompositeOnly: made, UpdatedBy: layout.Writer, UpdatedAt: m.clock.Now(),
	}
	if made { // no older version uses it
		record.KindsMin = schema.KnownKinds
	}
	item := record.Item()
	_, err := m.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &m.table, Item: item, ConditionExpression: aws.String(schema.CreateCondition),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if table.VerdictOf(err) != ddb.Refused {
		if err != nil {
			return m.store.Failure("write the version record", err)
		}
		if err := m.layout.NoteRecord(ctx, item); err != nil || made || !m.holdsNothing(ctx) {
			return err
		}
		return m.markMade(ctx)
	}
	var there *types.ConditionalCheckFailedException
	if !errors.As(err, &there) {
		return m.store.Failure("write the version record", err)
	}
	if err := m.layout.NoteRecord(ctx, there.Item); err != nil || !made || m.layout.CompositeOnly() {
		return err
	}
	return m.markMade(ctx)
}

// holdsNothing reports whether the table has only its version record, as one that a template made. It
// is false if the caller has no right to scan; Migrate reports that later.
func (m tableMaker) holdsNothing(ctx context.Context) bool {
	out, err := m.client.Scan(ctx, &dynamodb.ScanInput{TableName: &m.table, Limit: aws.Int32(2), ConsistentRead: aws.Bool(true)})
	return err == nil && len(out.LastEvaluatedKey) == 0 && len(out.Items) == 1
}

// markMade marks the version record of a new or empty table as without items of an older layout, and caches the
// record. It does nothing to a record of another implementation.
func (m tableMaker) markMade(ctx context.Context) error {
	st := schema.MarkNew(layout.Writer)
	out, err := m.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &m.table, Key: schema.VersionKey().Attributes(),
		UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		ReturnValues: types.ReturnValueAllNew,
	})
	switch {
	case table.VerdictOf(err) == ddb.Refused: // of another implementation
		return nil
	case err != nil:
		return m.store.Failure("write the version record", err)
	}
	return m.layout.NoteRecord(ctx, out.Attributes)
}
