package ddbmem_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// partitioned runs a test on a table whose keys take 10 write and 20 read units a second.
func partitioned(t *testing.T, test func(t *testing.T, db *ddbmem.DB, client *dynamodb.Client)) {
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New(ddbmem.WithPartitions(10, 20))
		client := db.Client(once)
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String("faults"), BillingMode: types.BillingModePayPerRequest,
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("PK"), KeyType: types.KeyTypeHash}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("PK"), AttributeType: types.ScalarAttributeTypeS}},
		})
		require.NoError(t, err)
		test(t, db, client)
	})
}

func putKey(t *testing.T, client *dynamodb.Client, key string) error {
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("faults"), Item: item{"PK": str(key)}})
	return err
}

func transacted(t *testing.T, client *dynamodb.Client, keys ...string) error {
	in := &dynamodb.TransactWriteItemsInput{}
	for _, key := range keys {
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{TableName: aws.String("faults"), Item: item{"PK": str(key)}}})
	}
	_, err := client.TransactWriteItems(t.Context(), in)
	return err
}

// A key takes its units a second and holds one second of them; others are not concerned.
func TestPartitionsThrottleWrites(t *testing.T) {
	partitioned(t, func(t *testing.T, db *ddbmem.DB, client *dynamodb.Client) {
		for range 10 {
			require.NoError(t, putKey(t, client, "a"))
		}
		var throttled *types.ThrottlingException
		require.ErrorAs(t, putKey(t, client, "a"), &throttled)
		require.NoError(t, putKey(t, client, "b"))
		assert.EqualValues(t, 1, db.Meter().Throttled())
		assert.InDelta(t, 11, db.Meter().WriteUnits(), 0, "what is throttled costs nothing")

		var cancelled *types.TransactionCanceledException
		require.ErrorAs(t, transacted(t, client, "c", "a"), &cancelled)
		require.Len(t, cancelled.CancellationReasons, 2)
		assert.Equal(t, "None", *cancelled.CancellationReasons[0].Code)
		assert.Equal(t, "ThrottlingError", *cancelled.CancellationReasons[1].Code)
		assert.InDelta(t, 11, db.Meter().WriteUnits(), 0)

		<-time.After(100 * time.Millisecond) // one unit
		require.NoError(t, transacted(t, client, "c", "a"), "it may use more than there is")
		<-time.After(100 * time.Millisecond)
		require.ErrorAs(t, putKey(t, client, "a"), &throttled, "which later ones wait for")
		<-time.After(time.Hour)
		accepted := 0
		for range 20 {
			if putKey(t, client, "a") == nil {
				accepted++
			}
		}
		assert.Equal(t, 10, accepted)
	})
}

func TestPartitionsThrottleBatchesAndReads(t *testing.T) {
	partitioned(t, func(t *testing.T, db *ddbmem.DB, client *dynamodb.Client) {
		for range 10 {
			require.NoError(t, putKey(t, client, "a"))
		}
		write := func(keys ...string) (map[string][]types.WriteRequest, error) {
			in := &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{}}
			for _, key := range keys {
				in.RequestItems["faults"] = append(in.RequestItems["faults"], types.WriteRequest{PutRequest: &types.PutRequest{Item: item{"PK": str(key)}}})
			}
			out, err := client.BatchWriteItem(t.Context(), in)
			if err != nil {
				return nil, err
			}
			return out.UnprocessedItems, nil
		}
		rest, err := write("a", "b")
		require.NoError(t, err)
		require.Len(t, rest["faults"], 1)
		assert.Equal(t, item{"PK": str("a")}, rest["faults"][0].PutRequest.Item)
		var throttled *types.ThrottlingException
		_, err = write("a")
		require.ErrorAs(t, err, &throttled)

		get := func(key string) error {
			_, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("faults"), Key: item{"PK": str(key)}, ConsistentRead: aws.Bool(true)})
			return err
		}
		for range 20 {
			require.NoError(t, get("a"))
		}
		require.ErrorAs(t, get("a"), &throttled)
		_, err = client.Query(t.Context(), &dynamodb.QueryInput{
			TableName: aws.String("faults"), KeyConditionExpression: aws.String("PK = :a"), ExpressionAttributeValues: item{":a": str("a")},
		})
		require.ErrorAs(t, err, &throttled)
		read := func(keys ...string) (*dynamodb.BatchGetItemOutput, error) {
			var wanted []map[string]types.AttributeValue
			for _, key := range keys {
				wanted = append(wanted, item{"PK": str(key)})
			}
			return client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"faults": {Keys: wanted}}})
		}
		out, err := read("a", "b")
		require.NoError(t, err)
		assert.Len(t, out.Responses["faults"], 1)
		require.Len(t, out.UnprocessedKeys["faults"].Keys, 1)
		assert.Equal(t, item{"PK": str("a")}, out.UnprocessedKeys["faults"].Keys[0])
		_, err = read("a")
		require.ErrorAs(t, err, &throttled)
		assert.EqualValues(t, 6, db.Meter().Throttled())
	})
}
