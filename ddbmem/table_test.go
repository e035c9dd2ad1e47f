package ddbmem_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestTables(t *testing.T) {
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, true, withIndex, withStream(types.StreamViewTypeNewImage))
		d, err := e.client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: table})
		require.NoError(t, err)
		require.Equal(t, types.TableStatusActive, d.Table.TableStatus)
		require.Len(t, d.Table.KeySchema, 2)
		require.Len(t, d.Table.AttributeDefinitions, 4)
		require.Equal(t, types.BillingModePayPerRequest, d.Table.BillingModeSummary.BillingMode)
		require.Equal(t, types.IndexStatusActive, d.Table.GlobalSecondaryIndexes[0].IndexStatus)
		require.Equal(t, []string{"n"}, d.Table.GlobalSecondaryIndexes[0].Projection.NonKeyAttributes)
		require.Equal(t, types.StreamViewTypeNewImage, d.Table.StreamSpecification.StreamViewType)
		require.NoError(t, dynamodb.NewTableExistsWaiter(e.client).Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: table}, time.Minute))
		_, err = e.client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: table, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("PK"), AttributeType: "S"}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("PK"), KeyType: "HASH"}},
		})
		wantCode(t, "ResourceInUseException", err)
		_, err = e.client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: table})
		require.NoError(t, err)
		_, err = e.client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: table})
		wantCode(t, "ResourceNotFoundException", err)
		_, err = e.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: item{"PK": str("a")}})
		wantCode(t, "ResourceNotFoundException", err)
	})
}

func TestUpdateTable(t *testing.T) {
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		put(t, e, table, item{"PK": str("a"), "x": str("X")})
		put(t, e, table, item{"PK": str("b"), "x": num(1)}) // stays out of the index
		_, err := e.client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
			TableName:            table,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("PK"), AttributeType: "S"}, {AttributeName: aws.String("x"), AttributeType: "S"}},
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
				IndexName: aws.String("byX"), KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("x"), KeyType: "HASH"}},
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
			}}},
		})
		require.NoError(t, err)
		query := func() (*dynamodb.QueryOutput, error) {
			return e.client.Query(t.Context(), &dynamodb.QueryInput{TableName: table, IndexName: aws.String("byX"), KeyConditionExpression: aws.String("x = :x"), ExpressionAttributeValues: item{":x": str("X")}})
		}
		out, err := query()
		require.NoError(t, err)
		require.Equal(t, `{PK="a" x="X"}`, showItems(out.Items))
		_, err = e.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: item{"PK": str("c"), "x": num(1)}})
		wantCode(t, "ValidationException", err)
		_, err = e.client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: table, GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: aws.String("byX")}}}})
		require.NoError(t, err)
		_, err = query()
		wantCode(t, "ValidationException", err)
	})
}

func TestRejectedTables(t *testing.T) {
	tests := []struct {
		name   string
		change func(*dynamodb.CreateTableInput)
		want   string
	}{
		{"short name", func(in *dynamodb.CreateTableInput) { in.TableName = aws.String("ab") }, "tableName"},
		{"odd name", func(in *dynamodb.CreateTableInput) { in.TableName = aws.String("a b c") }, "tableName"},
		{"undefined key", func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions[0].AttributeName = aws.String("x") }, "not defined in AttributeDefinitions"},
		{"unused definition", func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String("x"), AttributeType: "S"})
		}, "does not exactly match"},
		{"no throughput", func(in *dynamodb.CreateTableInput) { in.BillingMode = types.BillingModeProvisioned }, "must both be specified"},
		{"sort key first", func(in *dynamodb.CreateTableInput) { in.KeySchema[0].KeyType = "RANGE" }, "not a HASH key"},
		{"local index", func(in *dynamodb.CreateTableInput) {
			in.LocalSecondaryIndexes = []types.LocalSecondaryIndex{{IndexName: aws.String("local"), KeySchema: in.KeySchema, Projection: &types.Projection{ProjectionType: "ALL"}}}
		}, "ddbmem does not support LocalSecondaryIndexes"},
		{"encryption", func(in *dynamodb.CreateTableInput) {
			in.SSESpecification = &types.SSESpecification{Enabled: aws.Bool(true)}
		}, "ddbmem does not support SSESpecification"},
		{"projection", func(in *dynamodb.CreateTableInput) {
			withIndex(in)
			in.GlobalSecondaryIndexes[0].Projection = &types.Projection{ProjectionType: types.ProjectionTypeInclude}
		}, "NonKeyAttributes is not specified"},
	}
	db := ddbmem.New()
	for _, tt := range tests {
		in := &dynamodb.CreateTableInput{
			TableName: aws.String("rejected"), BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("PK"), AttributeType: "S"}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("PK"), KeyType: "HASH"}},
		}
		tt.change(in)
		_, err := db.Client(once).CreateTable(t.Context(), in)
		require.Error(t, err, tt.name)
		require.Contains(t, wantCode(t, "ValidationException", err), tt.want, tt.name)
	}
	out, err := db.Client().ListTables(t.Context(), &dynamodb.ListTablesInput{})
	require.NoError(t, err)
	require.Empty(t, out.TableNames)
}

func TestListTables(t *testing.T) {
	onDDBMem(t, func(t *testing.T, e engine) {
		for _, name := range []string{"ccc", "aaa", "bbb"} {
			createTable(t, e.client, name, false)
		}
		var names []string
		p := dynamodb.NewListTablesPaginator(e.client, &dynamodb.ListTablesInput{Limit: aws.Int32(2)})
		for p.HasMorePages() {
			out, err := p.NextPage(t.Context())
			require.NoError(t, err)
			names = append(names, out.TableNames...)
		}
		require.Equal(t, []string{"aaa", "bbb", "ccc"}, names)
	})
}

func TestDeletionProtection(t *testing.T) {
	onDDBMem(t, func(t *testing.T, e engine) {
		table := e.table(t, false, func(in *dynamodb.CreateTableInput) { in.DeletionProtectionEnabled = aws.Bool(true) })
		_, err := e.client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: table})
		wantCode(t, "ValidationException", err)
		_, err = e.client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: table, DeletionProtectionEnabled: aws.Bool(false)})
		require.NoError(t, err)
		_, err = e.client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: table})
		require.NoError(t, err)
	})
}

func setTTL(t *testing.T, e engine, table *string, enabled bool) error {
	t.Helper()
	_, err := e.client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: &enabled},
	})
	return err
}

func TestTimeToLiveSettings(t *testing.T) {
	onDDBMem(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		describe := func() *types.TimeToLiveDescription {
			out, err := e.client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: table})
			require.NoError(t, err)
			return out.TimeToLiveDescription
		}
		require.Equal(t, types.TimeToLiveStatusDisabled, describe().TimeToLiveStatus)
		require.Contains(t, wantCode(t, "ValidationException", setTTL(t, e, table, false)), "already disabled")
		require.NoError(t, setTTL(t, e, table, true))
		require.Equal(t, types.TimeToLiveStatusEnabled, describe().TimeToLiveStatus)
		require.Equal(t, "ttl", *describe().AttributeName)
		require.Contains(t, wantCode(t, "ValidationException", setTTL(t, e, table, true)), "already enabled")
		require.NoError(t, setTTL(t, e, table, false))
		require.Equal(t, types.TimeToLiveStatusDisabled, describe().TimeToLiveStatus)
	})
}

func TestExpiry(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	e := engine{db.Client(once), db.StreamsClient()}
	table := e.table(t, false, withStream(types.StreamViewTypeNewAndOldImages))
	r := openStream(t, e, table)
	var writes []ddbmem.Write
	db.OnWrite(func(w ddbmem.Write) { writes = append(writes, w) })
	at := func(d time.Duration) av { return num(start.Add(d).Unix()) }
	put(t, e, table, item{"PK": str("soon"), "ttl": at(10 * time.Second)})
	put(t, e, table, item{"PK": str("later"), "ttl": at(time.Hour)})
	put(t, e, table, item{"PK": str("text"), "ttl": str("10")})
	put(t, e, table, item{"PK": str("ancient"), "ttl": num(1)})
	put(t, e, table, item{"PK": str("none")})
	now = start.Add(time.Minute)
	require.Zero(t, db.ExpireNow(), "before time to live is enabled")
	now = start
	require.NoError(t, setTTL(t, e, table, true))
	for _, step := range []struct {
		after   time.Duration
		expired int
	}{{0, 0}, {10 * time.Second, 0}, {11 * time.Second, 1}, {11 * time.Second, 0}, {2 * time.Hour, 1}} {
		now = start.Add(step.after)
		require.Equal(t, step.expired, db.ExpireNow(), step.after)
	}
	for key, want := range map[string]string{"soon": "{}", "later": "{}", "text": `{PK="text" ttl="10"}`, "ancient": `{PK="ancient" ttl=1}`, "none": `{PK="none"}`} {
		require.Equal(t, want, get(t, e, table, item{"PK": str(key)}))
	}
	last := writes[len(writes)-1]
	require.True(t, last.Expired)
	require.Empty(t, last.Operation)
	require.Nil(t, last.New)
	records, _ := r.records(t, r.iterator(t, streamtypes.ShardIteratorTypeTrimHorizon, nil), 1000)
	removal := records[len(records)-1]
	require.Equal(t, streamtypes.OperationTypeRemove, removal.EventName)
	require.Equal(t, "Service", *removal.UserIdentity.Type)
	require.Equal(t, "dynamodb.amazonaws.com", *removal.UserIdentity.PrincipalId)
	require.Nil(t, records[0].UserIdentity)
}

// TestPointInTimeRecovery: off until it is enabled; its window begins there, and is at most
// 35 days long.
func TestPointInTimeRecovery(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	e := engine{db.Client(once), db.StreamsClient()}
	table := e.table(t, false)
	describe := func() *types.PointInTimeRecoveryDescription {
		out, err := e.client.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: table})
		require.NoError(t, err)
		require.Equal(t, types.ContinuousBackupsStatusEnabled, out.ContinuousBackupsDescription.ContinuousBackupsStatus)
		return out.ContinuousBackupsDescription.PointInTimeRecoveryDescription
	}
	set := func(s types.PointInTimeRecoverySpecification) error {
		_, err := e.client.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{TableName: table, PointInTimeRecoverySpecification: &s})
		return err
	}
	on := types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}
	require.Equal(t, types.PointInTimeRecoveryStatusDisabled, describe().PointInTimeRecoveryStatus)
	require.NoError(t, set(on))
	now = start.Add(time.Hour)
	require.NoError(t, set(on))
	require.Equal(t, types.PointInTimeRecoveryStatusEnabled, describe().PointInTimeRecoveryStatus)
	require.Equal(t, start, describe().EarliestRestorableDateTime.UTC())
	require.Equal(t, now, describe().LatestRestorableDateTime.UTC())
	now = start.Add(100 * 24 * time.Hour)
	require.Equal(t, now.Add(-35*24*time.Hour), describe().EarliestRestorableDateTime.UTC())
	wantCode(t, "ValidationException", set(types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true), RecoveryPeriodInDays: aws.Int32(7)}))
	require.NoError(t, set(types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(false)}))
	require.Equal(t, types.PointInTimeRecoveryStatusDisabled, describe().PointInTimeRecoveryStatus)

	_, err := e.client.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: aws.String("none")})
	wantCode(t, "TableNotFoundException", err)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is nil is as if it were not given.
func TestNilIsNotGiven(t *testing.T) {
	db := ddbmem.New(nil, ddbmem.WithClock(nil))
	db.OnWrite(nil)
	db.SetFaults(nil)
	client := db.Client()
	createTable(t, client, "things", false)
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: new("things"), Item: item{"PK": str("a")}})
	require.NoError(t, err)
}

// A DB that New did not make says so.
func TestZeroDBSaysSo(t *testing.T) {
	for _, db := range []*ddbmem.DB{nil, {}} {
		client := db.Client(func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
		_, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
		require.ErrorContains(t, err, "ddbmem.New()")
		answer := httptest.NewRecorder()
		db.ServeHTTP(answer, httptest.NewRequest("POST", "/", nil))
		assert.Equal(t, 500, answer.Code)
		assert.NotPanics(t, db.Close)
		assert.NotPanics(t, func() { assert.Zero(t, db.ExpireNow()) })
	}
}
