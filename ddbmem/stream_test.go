package ddbmem_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

func withStream(view types.StreamViewType) func(*dynamodb.CreateTableInput) {
	return func(in *dynamodb.CreateTableInput) {
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: view}
	}
}

// reader reads the one shard of a table's stream.
type reader struct {
	e     engine
	arn   *string
	shard *string
}

func openStream(t *testing.T, e engine, table *string) reader {
	t.Helper()
	d, err := e.client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: table})
	require.NoError(t, err)
	s, err := e.streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: d.Table.LatestStreamArn})
	require.NoError(t, err)
	require.Equal(t, streamtypes.StreamStatusEnabled, s.StreamDescription.StreamStatus)
	require.Len(t, s.StreamDescription.Shards, 1)
	return reader{e, d.Table.LatestStreamArn, s.StreamDescription.Shards[0].ShardId}
}

func (r reader) iterator(t *testing.T, kind streamtypes.ShardIteratorType, number *string) *string {
	t.Helper()
	out, err := r.e.streams.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{StreamArn: r.arn, ShardId: r.shard, ShardIteratorType: kind, SequenceNumber: number})
	require.NoError(t, err)
	return out.ShardIterator
}

func (r reader) records(t *testing.T, iterator *string, limit int32) ([]streamtypes.Record, *string) {
	t.Helper()
	out, err := r.e.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(limit)})
	require.NoError(t, err)
	return out.Records, out.NextShardIterator
}

func showRecords(t *testing.T, records []streamtypes.Record) string {
	t.Helper()
	var list []string
	for _, r := range records {
		oldImage, err := attributevalue.FromDynamoDBStreamsMap(r.Dynamodb.OldImage)
		require.NoError(t, err)
		newImage, err := attributevalue.FromDynamoDBStreamsMap(r.Dynamodb.NewImage)
		require.NoError(t, err)
		require.NotEmpty(t, r.Dynamodb.Keys)
		require.NotEmpty(t, *r.EventID)
		list = append(list, fmt.Sprintf("%s %s>%s", r.EventName, showItem(oldImage), showItem(newImage)))
	}
	return strings.Join(list, ", ")
}

// changeStream makes one insert, one change, one that changes nothing and one
// removal.
func changeStream(t *testing.T, e engine, table *string) {
	t.Helper()
	put(t, e, table, item{"PK": str("a"), "n": num(1)})
	put(t, e, table, item{"PK": str("a"), "n": num(2)})
	put(t, e, table, item{"PK": str("a"), "n": num(2)})
	for range 2 {
		_, err := e.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: table, Key: item{"PK": str("a")}})
		require.NoError(t, err)
	}
}

func TestStreamViews(t *testing.T) {
	tests := map[types.StreamViewType]string{
		types.StreamViewTypeNewAndOldImages: `INSERT {}>{PK="a" n=1}, MODIFY {PK="a" n=1}>{PK="a" n=2}, REMOVE {PK="a" n=2}>{}`,
		types.StreamViewTypeNewImage:        `INSERT {}>{PK="a" n=1}, MODIFY {}>{PK="a" n=2}, REMOVE {}>{}`,
		types.StreamViewTypeOldImage:        `INSERT {}>{}, MODIFY {PK="a" n=1}>{}, REMOVE {PK="a" n=2}>{}`,
		types.StreamViewTypeKeysOnly:        `INSERT {}>{}, MODIFY {}>{}, REMOVE {}>{}`,
	}
	onDDBMem(t, func(t *testing.T, e engine) {
		for view, want := range tests {
			table := e.table(t, false, withStream(view))
			r := openStream(t, e, table)
			changeStream(t, e, table)
			records, next := r.records(t, r.iterator(t, streamtypes.ShardIteratorTypeTrimHorizon, nil), 1000)
			require.Equal(t, want, showRecords(t, records), view)
			records, _ = r.records(t, next, 1000)
			require.Empty(t, records)
		}
	})
}

func TestStreamIterators(t *testing.T) {
	onDDBMem(t, func(t *testing.T, e engine) {
		table := e.table(t, false, withStream(types.StreamViewTypeNewImage))
		r := openStream(t, e, table)
		for i := range 10 {
			put(t, e, table, item{"PK": str("a"), "n": num(int64(i))})
		}
		latest := r.iterator(t, streamtypes.ShardIteratorTypeLatest, nil)
		put(t, e, table, item{"PK": str("a"), "n": num(10)})
		records, _ := r.records(t, latest, 1000)
		require.Len(t, records, 1)
		var all []streamtypes.Record
		for next := r.iterator(t, streamtypes.ShardIteratorTypeTrimHorizon, nil); len(all) < 11; {
			records, next = r.records(t, next, 4)
			require.NotEmpty(t, records)
			all = append(all, records...)
		}
		for i := 1; i < len(all); i++ {
			require.Less(t, *all[i-1].Dynamodb.SequenceNumber, *all[i].Dynamodb.SequenceNumber)
		}
		records, _ = r.records(t, r.iterator(t, streamtypes.ShardIteratorTypeAfterSequenceNumber, all[2].Dynamodb.SequenceNumber), 1000)
		require.Len(t, records, 8)
		records, _ = r.records(t, r.iterator(t, streamtypes.ShardIteratorTypeAtSequenceNumber, all[2].Dynamodb.SequenceNumber), 1000)
		require.Len(t, records, 9)
		list, err := e.streams.ListStreams(t.Context(), &dynamodbstreams.ListStreamsInput{TableName: table})
		require.NoError(t, err)
		require.Len(t, list.Streams, 1)
		_, err = e.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String("nonsense")})
		wantCode(t, "ValidationException", err)
	})
}

func TestStreamRecordsLastADay(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	e := engine{db.Client(once), db.StreamsClient()}
	table := e.table(t, false, withStream(types.StreamViewTypeNewImage))
	r := openStream(t, e, table)
	put(t, e, table, item{"PK": str("a"), "n": num(1)})
	early := r.iterator(t, streamtypes.ShardIteratorTypeTrimHorizon, nil)
	now = now.Add(15*time.Minute + time.Second)
	_, err := e.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: early})
	wantCode(t, "ExpiredIteratorException", err)
	now = now.Add(24 * time.Hour)
	put(t, e, table, item{"PK": str("a"), "n": num(2)})
	records, _ := r.records(t, r.iterator(t, streamtypes.ShardIteratorTypeTrimHorizon, nil), 1000)
	require.Equal(t, `MODIFY {}>{PK="a" n=2}`, showRecords(t, records))
	require.Equal(t, now, *records[0].Dynamodb.ApproximateCreationDateTime)
}

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
