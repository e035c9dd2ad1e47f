package ddbmem_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

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
