package ddbmem_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

func put(t *testing.T, e engine, table *string, it item) {
	t.Helper()
	_, err := e.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: it})
	require.NoError(t, err)
}

func get(t *testing.T, e engine, table *string, key item) string {
	t.Helper()
	out, err := e.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: table, Key: key, ConsistentRead: aws.Bool(true)})
	require.NoError(t, err)
	return showItem(out.Item)
}

func TestReturnValues(t *testing.T) {
	tests := []struct{ returns, want string }{
		{"NONE", "{}"},
		{"ALL_NEW", `{PK="a" m={x=9 y=2} n=2}`},
		{"ALL_OLD", `{PK="a" m={x=1 y=2} n=1 z=1}`},
		{"UPDATED_NEW", `{m={x=9} n=2}`},
		{"UPDATED_OLD", `{m={x=1} n=1 z=1}`},
	}
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		for _, tt := range tests {
			put(t, e, table, item{"PK": str("a"), "n": num(1), "z": num(1), "m": &types.AttributeValueMemberM{Value: item{"x": num(1), "y": num(2)}}})
			out, err := e.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: table, Key: item{"PK": str("a")}, UpdateExpression: aws.String("SET m.x = :v ADD n :one REMOVE z"),
				ExpressionAttributeValues: item{":v": num(9), ":one": num(1)}, ReturnValues: types.ReturnValue(tt.returns),
			})
			require.NoError(t, err)
			require.Equal(t, tt.want, showItem(out.Attributes), tt.returns)
		}
		for _, returns := range []types.ReturnValue{types.ReturnValueAllNew, types.ReturnValueUpdatedNew, types.ReturnValueUpdatedOld} {
			_, err := e.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: item{"PK": str("a")}, ReturnValues: returns})
			wantCode(t, "ValidationException", err)
		}
	})
}

func TestUpdateMakesItems(t *testing.T) {
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		for i, update := range []*string{nil, aws.String("REMOVE nope"), aws.String("SET a = if_not_exists(a, :v)")} {
			in := &dynamodb.UpdateItemInput{TableName: table, Key: item{"PK": str(fmt.Sprint(i))}, UpdateExpression: update}
			want := fmt.Sprintf("{PK=\"%d\"}", i)
			if i == 2 {
				in.ExpressionAttributeValues = item{":v": num(1)}
				want = `{PK="2" a=1}`
			}
			_, err := e.client.UpdateItem(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, want, get(t, e, table, item{"PK": str(fmt.Sprint(i))}))
		}
	})
}

func TestConditionFailureCarriesTheItem(t *testing.T) {
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		put(t, e, table, item{"PK": str("a"), "n": num(1)})
		for key, want := range map[string]string{"a": `{PK="a" n=1}`, "absent": "{}"} {
			for _, on := range []types.ReturnValuesOnConditionCheckFailure{"ALL_OLD", "NONE"} {
				_, err := e.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
					TableName: table, Key: item{"PK": str(key)}, UpdateExpression: aws.String("ADD n :one"), ConditionExpression: aws.String("n > :one"),
					ExpressionAttributeValues: item{":one": num(1)}, ReturnValuesOnConditionCheckFailure: on,
				})
				var failed *types.ConditionalCheckFailedException
				require.ErrorAs(t, err, &failed)
				require.Equal(t, "The conditional request failed", failed.ErrorMessage())
				if on == "NONE" {
					want = "{}"
				}
				require.Equal(t, want, showItem(failed.Item))
			}
		}
	})
}

func TestRejectedItems(t *testing.T) {
	tests := []struct {
		name    string
		item    item
		message string
	}{
		{"too large", item{"PK": str("a"), "SK": str("b"), "v": str(strings.Repeat("x", 400<<10))}, "Item size has exceeded the maximum allowed size"},
		{"no sort key", item{"PK": str("a")}, "Missing the key SK in the item"},
		{"key type", item{"PK": num(1), "SK": str("b")}, "Type mismatch for key PK expected: S actual: N"},
		{"empty key", item{"PK": str(""), "SK": str("b")}, "cannot contain an empty string value. Key: PK"},
		{"long hash key", item{"PK": str(strings.Repeat("x", 2049)), "SK": str("b")}, "2048 bytes"},
		{"long sort key", item{"PK": str("a"), "SK": str(strings.Repeat("x", 1025))}, "1024 bytes"},
		{"index key type", item{"PK": str("a"), "SK": str("b"), "g": num(1)}, "Type mismatch for Index Key g Expected: S Actual: N IndexName: byG"},
		{"empty index key", item{"PK": str("a"), "SK": str("b"), "g": str(""), "h": num(1)}, "IndexKey: g"},
		{"bad number", item{"PK": str("a"), "SK": str("b"), "v": &types.AttributeValueMemberN{Value: "x"}}, "cannot be converted to a numeric value: x"},
		{"long number", item{"PK": str("a"), "SK": str("b"), "v": &types.AttributeValueMemberN{Value: strings.Repeat("1", 39)}}, "more than 38 significant digits"},
	}
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, true, withIndex)
		for _, tt := range tests {
			_, err := e.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: tt.item})
			require.Contains(t, wantCode(t, "ValidationException", err), tt.message, tt.name)
		}
		require.Equal(t, "{}", get(t, e, table, item{"PK": str("a"), "SK": str("b")}))
	})
}

func TestRejectedUpdates(t *testing.T) {
	one := item{":one": num(1)}
	tests := []struct {
		update  string
		values  item
		names   map[string]string
		message string
	}{
		{"ADD s :one", one, nil, "An operand in the update expression has an incorrect data type"},
		{"SET n = zz + :one", one, nil, "refers to an attribute that does not exist in the item"},
		{"SET PK = :one", one, nil, "Cannot update attribute PK. This attribute is part of the key"},
		{"SET ttl = :one", one, nil, "Attribute name is a reserved keyword; reserved keyword: ttl"},
		{"SET n = :one", item{":one": num(1), ":two": num(2)}, nil, "unused in expressions: keys: {:two}"},
		{"SET n = :one", one, map[string]string{"#z": "z"}, "unused in expressions: keys: {#z}"},
		{"SET n = :one", one, map[string]string{"z": "z"}, `ExpressionAttributeNames contains invalid key: Syntax error; key: "z"`},
		{"SET n = :two", nil, nil, "value used in expression is not defined; attribute value: :two"},
		{"SET n = :one REMOVE n", one, nil, "Two document paths overlap"},
		{"SET n = :one SET s = :one", one, nil, "can only be used once"},
		{"SET n = :one +", one, nil, "Syntax error"},
		{"SET zz.x = :one", one, nil, "document path provided in the update expression is invalid for update"},
		{"SET g = :one", one, nil, ""},
	}
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, true, withIndex)
		key := item{"PK": str("a"), "SK": str("b")}
		put(t, e, table, item{"PK": str("a"), "SK": str("b"), "s": str("x"), "n": num(1)})
		for _, tt := range tests {
			_, err := e.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: table, Key: key, UpdateExpression: aws.String(tt.update), ExpressionAttributeValues: tt.values, ExpressionAttributeNames: tt.names,
			})
			require.Contains(t, wantCode(t, "ValidationException", err), tt.message, tt.update)
		}
		_, err := e.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: table, Key: item{"PK": str("a")}, UpdateExpression: aws.String("REMOVE n")})
		require.Contains(t, wantCode(t, "ValidationException", err), "key element does not match the schema")
		require.Equal(t, `{PK="a" SK="b" n=1 s="x"}`, get(t, e, table, key))
	})
}

func TestLegacyParametersAreRefused(t *testing.T) {
	onDDBMem(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		_, err := e.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: table, Key: item{"PK": str("a")}, AttributesToGet: []string{"a"}})
		require.Contains(t, wantCode(t, "ValidationException", err), "ddbmem does not support AttributesToGet")
		_, err = e.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: item{"PK": str("a")}, Expected: map[string]types.ExpectedAttributeValue{"a": {Exists: aws.Bool(false)}}})
		require.Contains(t, wantCode(t, "ValidationException", err), "ddbmem does not support Expected")
		_, err = e.client.ExecuteStatement(t.Context(), &dynamodb.ExecuteStatementInput{Statement: aws.String("SELECT * FROM x")})
		require.Contains(t, wantCode(t, "ValidationException", err), "ddbmem does not support ExecuteStatement")
		_, err = e.client.DescribeLimits(t.Context(), &dynamodb.DescribeLimitsInput{})
		require.Contains(t, wantCode(t, "ValidationException", err), "ddbmem does not support DescribeLimits")
	})
}

func keys(n int) []item {
	list := make([]item, n)
	for i := range list {
		list[i] = item{"PK": str(fmt.Sprint(i))}
	}
	return list
}

func puts(n int) []types.WriteRequest {
	list := make([]types.WriteRequest, n)
	for i, k := range keys(n) {
		list[i].PutRequest = &types.PutRequest{Item: k}
	}
	return list
}

func TestBatches(t *testing.T) {
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		write := func(w ...types.WriteRequest) error {
			_, err := e.client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{*table: w}})
			return err
		}
		read := func(k ...item) (*dynamodb.BatchGetItemOutput, error) {
			return e.client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{*table: {Keys: k, ConsistentRead: aws.Bool(true)}}})
		}
		require.NoError(t, write(puts(25)...))
		wantCode(t, "ValidationException", write(puts(26)...))
		wantCode(t, "ValidationException", write(append(puts(2), puts(1)...)...))
		wantCode(t, "ValidationException", write(types.WriteRequest{PutRequest: &types.PutRequest{Item: item{"x": num(1)}}}))
		require.NoError(t, write(types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: item{"PK": str("3")}}}))
		out, err := read(keys(100)...)
		require.NoError(t, err)
		require.Len(t, out.Responses[*table], 24)
		require.Empty(t, out.UnprocessedKeys)
		_, err = read(keys(101)...)
		wantCode(t, "ValidationException", err)
		_, err = read(append(keys(2), keys(1)...)...)
		require.Contains(t, wantCode(t, "ValidationException", err), "duplicates")
	})
}

func TestUnprocessed(t *testing.T) {
	db := ddbmem.New()
	client := db.Client(once)
	createTable(t, client, "batch", false)
	unprocessed := 0
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Unprocessed: unprocessed} })
	for _, tt := range []struct{ leave, written int }{{0, 10}, {3, 7}, {10, 0}, {99, 0}} {
		unprocessed = 0
		for _, k := range keys(10) {
			_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("batch"), Key: k})
			require.NoError(t, err)
		}
		unprocessed = tt.leave
		before := db.Meter()
		out, err := client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"batch": puts(10)}})
		require.NoError(t, err)
		require.Len(t, out.UnprocessedItems["batch"], 10-tt.written)
		require.EqualValues(t, tt.written, db.Meter().Sub(before).WriteUnits())
		unprocessed = 0
		all, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("batch")})
		require.NoError(t, err)
		require.EqualValues(t, tt.written, all.Count)

		unprocessed = tt.leave
		got, err := client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			"batch": {Keys: keys(10), ConsistentRead: aws.Bool(true), ProjectionExpression: aws.String("#0"), ExpressionAttributeNames: map[string]string{"#0": "PK"}},
		}})
		require.NoError(t, err)
		left := got.UnprocessedKeys["batch"]
		require.Len(t, left.Keys, 10-tt.written)
		if tt.leave > 0 {
			require.True(t, *left.ConsistentRead)
			require.Equal(t, "#0", *left.ProjectionExpression)
			require.Equal(t, map[string]string{"#0": "PK"}, left.ExpressionAttributeNames)
		}
	}
}
