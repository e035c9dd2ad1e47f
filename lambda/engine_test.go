package lambda_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/lambda"
)

// engine is a DynamoDB to test on: ddbmem, or the one that DYNALIMIT_TEST_ENDPOINT names.
type engine struct {
	client  *dynamodb.Client
	streams *dynamodbstreams.Client
}

// testEngines runs test on ddbmem, and on the endpoint when one is given.
func testEngines(t *testing.T, test func(t *testing.T, e engine)) {
	t.Helper()
	t.Run("ddbmem", func(t *testing.T) {
		db := ddbmem.New()
		t.Cleanup(db.Close)
		test(t, engine{db.Client(), db.StreamsClient()})
	})
	endpoint := os.Getenv("DYNALIMIT_TEST_ENDPOINT")
	if endpoint == "" {
		return
	}
	t.Run("endpoint", func(t *testing.T) {
		transport := &http.Transport{IdleConnTimeout: 100 * time.Millisecond}
		t.Cleanup(transport.CloseIdleConnections)
		c := aws.Config{
			Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
			HTTPClient: &http.Client{Transport: transport, Timeout: time.Minute},
		}
		test(t, engine{dynamodb.NewFromConfig(c), dynamodbstreams.NewFromConfig(c)})
	})
}

var lastTable atomic.Int64

// newTable is a name no test used before.
func newTable() string { return fmt.Sprintf("lambda-%d-%d", os.Getpid(), lastTable.Add(1)) }

// records are those of the table's stream, shard by shard.
func (e engine) records(t *testing.T, table string) (all [][]streamtypes.Record) {
	t.Helper()
	ctx := t.Context()
	d, err := e.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	require.NoError(t, err)
	s, err := e.streams.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: d.Table.LatestStreamArn})
	require.NoError(t, err)
	require.Nil(t, s.StreamDescription.LastEvaluatedShardId)
	for _, shard := range s.StreamDescription.Shards {
		it, err := e.streams.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
			StreamArn: d.Table.LatestStreamArn, ShardId: shard.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		require.NoError(t, err)
		var records []streamtypes.Record
		for next := it.ShardIterator; next != nil; {
			page, err := e.streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: next})
			require.NoError(t, err)
			if len(page.Records) == 0 {
				break
			}
			records = append(records, page.Records...)
			next = page.NextShardIterator
		}
		all = append(all, records)
	}
	return all
}

// counters are what the buckets of a table count, by entity, resource and limit, in
// millitokens.
func (e engine) counters(t *testing.T, table string) map[string]int64 {
	t.Helper()
	return e.numbers(t, table, "#BUCKET#", "b_", "_tc")
}

// usage is what the snapshots of all hours have, as counters has it.
func (e engine) usage(t *testing.T, table string) map[string]int64 {
	t.Helper()
	return e.numbers(t, table, "#USAGE#", "u_", "_n")
}

func (e engine) numbers(t *testing.T, table, sort, prefix, suffix string) map[string]int64 {
	t.Helper()
	sums := map[string]int64{}
	pages := dynamodb.NewScanPaginator(e.client, &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, item := range page.Items {
			resource, ok := strings.CutPrefix(item["SK"].(*types.AttributeValueMemberS).Value, sort)
			if !ok {
				continue
			}
			resource, _, _ = strings.Cut(resource, "#")
			for attr, v := range item {
				name, isNumber := strings.CutSuffix(strings.TrimPrefix(attr, prefix), suffix)
				if !isNumber || !strings.HasPrefix(attr, prefix) || strings.HasSuffix(name, "^") { // of what a level above counts too
					continue
				}
				n, err := strconv.ParseInt(v.(*types.AttributeValueMemberN).Value, 10, 64)
				require.NoError(t, err)
				if n != 0 {
					sums[item["PK"].(*types.AttributeValueMemberS).Value+" "+resource+" "+name] += n
				}
			}
		}
	}
	return sums
}

// call calls a function as Lambda does, and returns from which sequence number on it wants
// the batch again, "" for nothing.
func call(ctx context.Context, t testing.TB, h *lambda.Handler, event []byte) string {
	t.Helper()
	text, err := h.Invoke(ctx, event)
	require.NoError(t, err)
	var answer events.DynamoDBEventResponse
	require.NoError(t, json.Unmarshal(text, &answer))
	require.NotNil(t, answer.BatchItemFailures, "%s", text)
	if len(answer.BatchItemFailures) == 0 {
		return ""
	}
	require.Len(t, answer.BatchItemFailures, 1)
	require.NotEmpty(t, answer.BatchItemFailures[0].ItemIdentifier)
	return answer.BatchItemFailures[0].ItemIdentifier
}
