package archive_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/aggregator/archive"
)

// An hour of usage that expired becomes a line of a file.
func Example() {
	ctx := context.Background()
	folder, _ := os.MkdirTemp("", "archive")
	defer func() { _ = os.RemoveAll(folder) }()
	a, err := archive.New(archive.Folder(folder), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	// In a service aggregator.NewTail gives a.Process the records of the stream.
	result, err := a.Process(ctx, []aggregator.Record{expiredHour()})
	fmt.Println("archived", result.Counted, err)

	names, _ := filepath.Glob(filepath.Join(folder, "usage", "hour", "*", "*.jsonl.gz"))
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		for line, err := range archive.Read(file) {
			fmt.Println(line.EventID, line.ID, line.Resource, line.Time, line.Limits["tpm"].Consumed, err)
		}
		_ = file.Close()
	}
	// Output:
	// archived 1 <nil>
	// 8a1f key-1 gpt-4 2026-03-29 12:00:00 +0000 UTC 2500000 <nil>
}

// expiredHour is the record of an hour that DynamoDB deleted.
func expiredHour() aggregator.Record {
	keys := map[string]types.AttributeValue{
		"PK": &types.AttributeValueMemberS{Value: "ENTITY#key-1"}, "SK": &types.AttributeValueMemberS{Value: "#USAGE#gpt-4#2026-03-29T12:00:00Z"},
	}
	return aggregator.Record{
		EventID: "8a1f", Sequence: "1", Shard: "shardId-01", Time: time.Date(2026, 6, 28, 13, 0, 0, 0, time.UTC), Expired: true, Keys: keys,
		Old: map[string]types.AttributeValue{
			"PK": keys["PK"], "SK": keys["SK"], "window": &types.AttributeValueMemberS{Value: "hourly"},
			"window_start": &types.AttributeValueMemberS{Value: "2026-03-29T12:00:00Z"}, "u_tpm_n": &types.AttributeValueMemberN{Value: "2500000"},
		},
	}
}
