package ddbmem_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// shardsOf are the shards of a stream, two a page.
func shardsOf(t *testing.T, e engine, arn *string) []streamtypes.Shard {
	t.Helper()
	var all []streamtypes.Shard
	var after *string
	for {
		out, err := e.streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn, Limit: aws.Int32(2), ExclusiveStartShardId: after})
		require.NoError(t, err)
		all = append(all, out.StreamDescription.Shards...)
		if after = out.StreamDescription.LastEvaluatedShardId; after == nil {
			return all
		}
		require.Len(t, out.StreamDescription.Shards, 2)
	}
}

// all reads a shard from its oldest record on, and whether it has ended.
func (r reader) all(t *testing.T) (records []streamtypes.Record, ended bool) {
	t.Helper()
	next := r.iterator(t, streamtypes.ShardIteratorTypeTrimHorizon, nil)
	for {
		var page []streamtypes.Record
		if page, next = r.records(t, next, 7); next == nil {
			return append(records, page...), true
		} else if len(page) == 0 {
			return records, false
		}
		records = append(records, page...)
	}
}

// TestSplitStream: the changes of an item are in one shard after the other, in their
// order, and those of all items are all there.
func TestSplitStream(t *testing.T) {
	db := ddbmem.New()
	e := engine{db.Client(once), db.StreamsClient()}
	table := e.table(t, false, withStream(types.StreamViewTypeNewImage))
	arn := openStream(t, e, table).arn
	n := 0
	write := func() {
		for range 5 {
			n++
			for key := range 20 {
				put(t, e, table, item{"PK": str(fmt.Sprint("key-", key)), "n": num(int64(n))})
			}
		}
	}
	write()
	require.NoError(t, db.SplitStream(*table, 2))
	write()
	require.NoError(t, db.SplitStream(*table, 1), "as DynamoDB does after some hours")
	write()
	require.NoError(t, db.SplitStream(*table, 3))
	write()

	shards := shardsOf(t, e, arn)
	require.Len(t, shards, 1+2+2+6)
	lineage, seen, last := map[string]string{}, map[string]int64{}, map[string]string{}
	where := map[string]string{} // the shard in which a key was seen last
	perShard := map[string]int{}
	for _, shard := range shards { // parents come before their children
		lineage[*shard.ShardId] = aws.ToString(shard.ParentShardId)
		records, ended := reader{e, arn, shard.ShardId}.all(t)
		perShard[*shard.ShardId] = len(records)
		assert.Equal(t, shard.SequenceNumberRange.EndingSequenceNumber != nil, ended, *shard.ShardId)
		for _, r := range records {
			key := r.Dynamodb.Keys["PK"].(*streamtypes.AttributeValueMemberS).Value
			number := *r.Dynamodb.SequenceNumber
			assert.Less(t, last[key], number, key)
			assert.LessOrEqual(t, *shard.SequenceNumberRange.StartingSequenceNumber, number)
			if ended {
				assert.GreaterOrEqual(t, *shard.SequenceNumberRange.EndingSequenceNumber, number)
			}
			assert.Contains(t, []string{"", *shard.ShardId, lineage[*shard.ShardId]}, where[key], "%s came from a shard that is no parent", key)
			seen[key]++
			last[key], where[key] = number, *shard.ShardId
		}
	}
	require.Len(t, seen, 20)
	for key, times := range seen {
		assert.EqualValues(t, n, times, key)
	}
	assert.Greater(t, perShard[*shards[1].ShardId], 0)
	assert.Greater(t, perShard[*shards[2].ShardId], 0)
	for i, parent := range []int{-1, 0, 0, 1, 2, 3, 3, 3, 4, 4, 4} {
		if parent < 0 {
			assert.Nil(t, shards[i].ParentShardId)
			continue
		}
		assert.Equal(t, *shards[parent].ShardId, *shards[i].ParentShardId, i)
	}
}

// TestIteratorsOfAClosedShard: they reach its end, and no record of its children.
func TestIteratorsOfAClosedShard(t *testing.T) {
	db := ddbmem.New()
	e := engine{db.Client(once), db.StreamsClient()}
	table := e.table(t, false, withStream(types.StreamViewTypeNewImage))
	r := openStream(t, e, table)
	put(t, e, table, item{"PK": str("a"), "n": num(1)})
	waiting := r.iterator(t, streamtypes.ShardIteratorTypeLatest, nil)
	require.NoError(t, db.SplitStream(*table, 1))
	put(t, e, table, item{"PK": str("a"), "n": num(2)})
	records, next := r.records(t, waiting, 10)
	assert.Empty(t, records)
	assert.Nil(t, next)
	records, ended := r.all(t)
	require.Len(t, records, 1)
	assert.True(t, ended)
	records, next = r.records(t, r.iterator(t, streamtypes.ShardIteratorTypeAfterSequenceNumber, records[0].Dynamodb.SequenceNumber), 10)
	assert.Empty(t, records)
	assert.Nil(t, next)

	child := reader{e, r.arn, shardsOf(t, e, r.arn)[1].ShardId}
	records, _ = child.all(t)
	require.Len(t, records, 1)
	_, err := e.streams.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: r.arn, ShardId: r.shard, ShardIteratorType: streamtypes.ShardIteratorTypeAtSequenceNumber, SequenceNumber: records[0].Dynamodb.SequenceNumber,
	})
	wantCode(t, "ValidationException", err)
	_, err = e.streams.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: r.arn, ShardId: aws.String("shardId-0"), ShardIteratorType: streamtypes.ShardIteratorTypeLatest,
	})
	wantCode(t, "ResourceNotFoundException", err)
}

// TestRecordsGoAfterADay: also where nothing was written since. An iterator whose first
// record went is refused, as is a number, and a shard that was closed is gone.
func TestRecordsGoAfterADay(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	e := engine{db.Client(once), db.StreamsClient()}
	table := e.table(t, false, withStream(types.StreamViewTypeNewImage))
	r := openStream(t, e, table)
	put(t, e, table, item{"PK": str("a"), "n": num(1)})
	now = start.Add(24*time.Hour - time.Minute)
	put(t, e, table, item{"PK": str("a"), "n": num(2)})
	early := r.iterator(t, streamtypes.ShardIteratorTypeTrimHorizon, nil)
	records, _ := r.all(t)
	require.Len(t, records, 2)

	now = start.Add(24*time.Hour + time.Minute)
	_, err := e.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: early})
	wantCode(t, "TrimmedDataAccessException", err)
	require.NoError(t, db.SplitStream(*table, 2))

	now = start.Add(47 * time.Hour)
	left, _ := r.all(t)
	assert.Len(t, left, 1)
	now = start.Add(48 * time.Hour)
	_, err = e.streams.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: r.arn, ShardId: r.shard, ShardIteratorType: streamtypes.ShardIteratorTypeAtSequenceNumber, SequenceNumber: records[1].Dynamodb.SequenceNumber,
	})
	wantCode(t, "TrimmedDataAccessException", err)
	now = start.Add(50 * time.Hour)
	assert.Len(t, shardsOf(t, e, r.arn), 2)
}

func TestSplittingWhatIsNotThere(t *testing.T) {
	db := ddbmem.New()
	e := engine{db.Client(once), db.StreamsClient()}
	require.ErrorContains(t, db.SplitStream("nowhere", 2), "nowhere")
	require.ErrorContains(t, db.TrimStream("nowhere", time.Now()), "nowhere")
	table := e.table(t, false)
	require.ErrorContains(t, db.SplitStream(*table, 2), "StreamSpecification")
	require.ErrorContains(t, db.TrimStream(*table, time.Now()), "StreamSpecification")
	table = e.table(t, false, withStream(types.StreamViewTypeNewImage))
	require.ErrorContains(t, db.SplitStream(*table, 0), "1 to 1024")
	require.Error(t, new(ddbmem.DB).SplitStream(*table, 2))
	require.Error(t, new(ddbmem.DB).TrimStream(*table, time.Now()))
	_, err := e.client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: table, StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(false)}})
	require.NoError(t, err)
	require.ErrorContains(t, db.SplitStream(*table, 2), "is disabled")
}
