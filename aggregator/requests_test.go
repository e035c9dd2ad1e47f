package aggregator_test

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
)

// boundedRequests is the HTTP client below the SDK, which collects the operations it sends and
// those of requests that may take over 5 s, or over 10 s if they are about the table itself.
type boundedRequests struct {
	next            aws.HTTPClient
	mu              sync.Mutex
	sent, unbounded map[string]int
}

func (b *boundedRequests) Do(r *http.Request) (*http.Response, error) {
	operation := r.Header.Get("X-Amz-Target")
	deadline, bounded := r.Context().Deadline()
	most := 5 * time.Second
	if strings.HasSuffix(operation, ".DescribeTable") {
		most = 10 * time.Second
	}
	b.mu.Lock()
	b.sent[operation]++
	if !bounded || time.Until(deadline) > most {
		b.unbounded[operation]++
	}
	b.mu.Unlock()
	return b.next.Do(r)
}

// TestEveryRequestHasABound: a Tail, Processor, Closer and Reader bound each request, so that
// none of them waits for a request that is never answered.
func TestEveryRequestHasABound(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		b := &boundedRequests{next: h.db, sent: map[string]int{}, unbounded: map[string]int{}}
		client := h.db.Client(func(o *dynamodb.Options) { o.HTTPClient = b })
		streams := h.db.StreamsClient(func(o *dynamodbstreams.Options) { o.HTTPClient = b })
		check := func(part string) {
			t.Helper()
			b.mu.Lock()
			defer b.mu.Unlock()
			assert.NotEmpty(t, b.sent, part)
			assert.Empty(t, b.unbounded, part)
			clear(b.sent)
			clear(b.unbounded)
		}

		h.spend(1, 2, 3)
		p, err := aggregator.New(client, "limits", nil)
		require.NoError(t, err)
		tail, err := aggregator.NewTail(streams, client, "limits", p.Process, &aggregator.TailOptions{FoldEvery: -1})
		require.NoError(t, err)
		following, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- tail.Run(following) }()
		after(time.Minute)
		cancel()
		require.NoError(t, <-done)
		check("Tail and Processor")

		closer, err := aggregator.NewCloser(client, "limits", &aggregator.CloserOptions{Now: func() time.Time { return time.Now().Add(40 * 24 * time.Hour) }})
		require.NoError(t, err)
		_, err = closer.CloseDue(t.Context())
		require.NoError(t, err)
		check("Closer")

		reader, err := aggregator.NewReader(client, "limits", nil)
		require.NoError(t, err)
		for _, window := range []aggregator.Window{aggregator.Hour, aggregator.Day, aggregator.Month} {
			for _, list := range []func(context.Context, string, aggregator.Query) iter.Seq2[aggregator.Usage, error]{reader.Entity, reader.Resource, reader.Plan, reader.Children} {
				for _, err := range list(t.Context(), "gpt-4", aggregator.Query{Window: window}) {
					require.NoError(t, err)
				}
			}
		}
		check("Reader")
	})
}

// TestLagIsToldWhileRecordsAreProcessed: a ProcessFunc that does not return does not hide how far
// behind its shard is.
func TestLagIsToldWhileRecordsAreProcessed(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		h.spend(1)
		x := h.tail(aggregator.TailOptions{FoldEvery: -1, Drain: time.Second}, func(ctx context.Context, _ []aggregator.Record) (aggregator.Result, error) {
			<-ctx.Done()
			return aggregator.Result{}, ctx.Err()
		})
		after(time.Hour)
		x.log.mu.Lock()
		behind := time.Duration(0)
		for _, lag := range x.log.lag {
			behind = max(behind, lag.Behind)
		}
		assert.Greater(t, behind, 59*time.Minute)
		x.log.mu.Unlock()
		x.stop()
		require.Error(t, <-x.done, "the record is left")
	})
}
