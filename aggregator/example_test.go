package aggregator_test

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// A Processor counts each record once, however often it comes.
func ExampleProcessor_Process() {
	ctx, now := context.Background(), time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	repo, _ := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Now: func() time.Time { return now }})
	_ = repo.CreateTable(ctx) // with a stream
	limiter, _ := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 10_000)}})
	lease, _ := limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"tpm": 3_000})
	_ = lease.Settle(ctx, dynalimit.Amounts{"tpm": 2_500})

	processor, _ := aggregator.New(db.Client(), "limits", nil)
	for range 2 { // whoever reads a stream may read a part of it again
		result, err := processor.Process(ctx, readStream(ctx, db))
		fmt.Println("counted", result.Counted, "repeated", result.Repeated, err)
	}
	out, _ := db.Client().GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("limits"), Key: snapshotKey("key-1", "gpt-4", now)})
	fmt.Println(number(nil, out.Item["u_tpm_n"]), "millitokens")
	// Output:
	// counted 2 repeated 0 <nil>
	// counted 0 repeated 2 <nil>
	// 2500000 millitokens
}

// A Reader tells what was used, also what the stream has not brought yet.
func ExampleReader_Entity() {
	ctx, now := context.Background(), time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	db := ddbmem.New(ddbmem.WithClock(clock))
	repo, _ := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Now: clock})
	_ = repo.CreateTable(ctx)
	limiter, _ := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 10_000)}})
	lease, _ := limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"tpm": 3_000})
	_ = lease.Settle(ctx, dynalimit.Amounts{"tpm": 2_500})

	reader, _ := aggregator.NewReader(db.Client(), "limits", &aggregator.ReaderOptions{Now: clock})
	for u, err := range reader.Entity(ctx, "key-1", aggregator.Query{Window: aggregator.Day}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, l := range u.Limits {
			fmt.Println(u.Start.Format(time.DateOnly), u.Resource, l.Limit, l.Consumed/1000, "of them pending:", l.Pending/1000)
		}
	}
	// Output:
	// 2026-01-02 gpt-4 tpm 2500 of them pending: 2500
}

// readStream is everything in the first shard of the table's stream.
func readStream(ctx context.Context, db *ddbmem.DB) (records []aggregator.Record) {
	table, _ := db.Client().DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String("limits")})
	stream, _ := db.StreamsClient().DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: table.Table.LatestStreamArn})
	shard := stream.StreamDescription.Shards[0].ShardId
	at, _ := db.StreamsClient().GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
		StreamArn: table.Table.LatestStreamArn, ShardId: shard, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
	})
	out, _ := db.StreamsClient().GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: at.ShardIterator})
	for _, r := range out.Records {
		record, err := aggregator.FromStream(*shard, r)
		if err == nil {
			records = append(records, record)
		}
	}
	return records
}
