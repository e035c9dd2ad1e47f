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
