package schema_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

var shardOne = schema.StreamShard{Stream: "2026-01-02T12:00:00.000", Shard: "shardId-0001-ab"}

// TestCheckpointsMoveForward: a checkpoint is written if it is further, or the end of what
// was read.
func TestCheckpointsMoveForward(t *testing.T) {
	db := ddbmem.New()
	t.Cleanup(db.Close)
	name, hash, sort := "limits", schema.PK, schema.SK
	_, err := db.Client().CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &hash, AttributeType: types.ScalarAttributeTypeS}, {AttributeName: &sort, AttributeType: types.ScalarAttributeTypeS}},
	})
	require.NoError(t, err)
	key := schema.TailKeys{Name: "usage"}.Checkpoint(shardOne)
	for i, step := range []struct {
		write schema.TailCheckpoint
		lands bool
	}{
		{schema.TailCheckpoint{Number: "900"}, true},
		{schema.TailCheckpoint{Number: "900"}, false},
		{schema.TailCheckpoint{Number: "000899"}, false},
		{schema.TailCheckpoint{Number: "899", Finished: true}, false},
		{schema.TailCheckpoint{Number: "10000"}, true},
		{schema.TailCheckpoint{Number: "10000", Finished: true}, true},
		{schema.TailCheckpoint{Number: "10001"}, false},
		{schema.TailCheckpoint{Number: "10001", Finished: true}, false},
	} {
		st := step.write.Advance(1000)
		_, err := db.Client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &name, Key: key.Attributes(), UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
			ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		})
		require.Equal(t, step.lands, err == nil, "%d: %v", i, err)
		if err != nil {
			require.Equal(t, ddb.Refused, ddb.Classify(err, t.Context()).Verdict, i)
		}
	}
	out, err := db.Client().GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &name, Key: key.Attributes()})
	require.NoError(t, err)
	seq, _ := schema.Sequence("10000")
	assert.Equal(t, schema.TailCheckpoint{Number: "10000", Seq: seq, Finished: true}, schema.DecodeTailCheckpoint(out.Item))
	assert.Equal(t, schema.Number(1000+3*24*3600), out.Item["ttl"])
	assert.Zero(t, schema.DecodeTailCheckpoint(nil))
}

// TestTailItems: what followers remember is told apart by its keys, in one partition that is
// in no namespace.
func TestTailItems(t *testing.T) {
	k := schema.TailKeys{Name: "usage"}
	assert.Equal(t, shardOne, schema.TailShardOf(k.Checkpoint(shardOne)))
	assert.False(t, strings.HasPrefix(k.Lease().SK, k.Checkpoints()))
	for _, key := range []schema.Key{k.Checkpoint(shardOne), k.Lease()} {
		assert.True(t, schema.OfTail(key))
		_, _, _, bucket := schema.BucketOf(key)
		assert.False(t, bucket)
	}
	assert.False(t, schema.OfTail(schema.NewKeys("TAIL").Bucket("a", "b")))
}
