package ddbmem_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

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
