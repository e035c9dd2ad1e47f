package aggregator_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestTailEndToEnd: a limiter, the table's stream and two tails, of which one stops, on real
// time: on ddbmem, and on the engine at DYNALIMIT_TEST_ENDPOINT.
func TestTailEndToEnd(t *testing.T) {
	t.Run("ddbmem", func(t *testing.T) {
		db := ddbmem.New()
		t.Cleanup(db.Close)
		endToEnd(t, db.Client(), db.StreamsClient())
	})
	endpoint := os.Getenv("DYNALIMIT_TEST_ENDPOINT")
	if endpoint == "" {
		t.Log("NOT TRIED on another engine: DYNALIMIT_TEST_ENDPOINT is not set")
		return
	}
	t.Run("other engine", func(t *testing.T) {
		transport := &http.Transport{MaxIdleConnsPerHost: 16}
		t.Cleanup(transport.CloseIdleConnections)
		config := aws.Config{
			Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
			HTTPClient: &http.Client{Transport: transport, Timeout: time.Minute}, BaseEndpoint: aws.String(endpoint),
		}
		endToEnd(t, dynamodb.NewFromConfig(config), dynamodbstreams.NewFromConfig(config))
	})
}

func endToEnd(t *testing.T, client *dynamodb.Client, streams *dynamodbstreams.Client) {
	t.Helper()
	table := fmt.Sprintf("usage-%d", time.Now().UnixNano())
	// A busy machine may answer later than the default.
	repo, err := dynalimit.NewRepository(client, table, &dynalimit.RepositoryOptions{RequestTimeout: 20 * time.Second})
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(t.Context()))
	t.Cleanup(func() {
		_, _ = client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &table})
	})
	limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerHour("tpm", 1_000_000)}})
	require.NoError(t, err)
	p, err := aggregator.New(client, table, nil)
	require.NoError(t, err)
	start := func() (stop func()) {
		tail, err := aggregator.NewTail(streams, client, table, p.Process, &aggregator.TailOptions{FoldEvery: 50 * time.Millisecond, Poll: 20 * time.Millisecond, Hold: 3 * time.Second})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- tail.Run(ctx) }()
		return func() {
			cancel()
			require.NoError(t, <-done)
		}
	}
	want := int64(0)
	spend := func() {
		for i := range 20 {
			lease, err := limiter.Acquire(t.Context(), fmt.Sprint("key-", i%4), "gpt-4", dynalimit.Amounts{"tpm": 100})
			require.NoError(t, err)
			require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": int64(90 + i)}))
			want += 1000 * int64(90+i)
		}
	}
	total := func() (sum int64) {
		pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: &table})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			require.NoError(t, err)
			for _, item := range page.Items {
				if strings.HasPrefix(text(item, "SK"), "#USAGE#") {
					sum += number(t, item["u_tpm_n"])
				}
			}
		}
		return sum
	}
	spend()
	first, second := start(), start()
	spend()
	counted := func() bool { return total() == want }
	require.Eventually(t, counted, 30*time.Second, 50*time.Millisecond)
	first()
	spend()
	require.Eventually(t, counted, 30*time.Second, 50*time.Millisecond)
	second()
	require.NoError(t, limiter.Close(t.Context()))
	assert.Equal(t, want, total())
}
