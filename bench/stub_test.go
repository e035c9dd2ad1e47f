package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

const model = "gpt-4"

// typical is what most calls ask for; plenty never runs out, and stays below
// full, as a bucket in use does.
var (
	typical = dynalimit.Amounts{"rpm": 1, "tpm": 500}
	plenty  = []dynalimit.Limit{
		{Name: "rpm", Capacity: 1, Burst: 1_000_000_000, RefillAmount: 1, RefillPeriod: time.Hour},
		{Name: "tpm", Capacity: 1, Burst: 1_000_000_000_000, RefillAmount: 1, RefillPeriod: time.Hour},
	}
)

// recorder is a client that keeps its last update.
type recorder struct {
	*dynamodb.Client
	last *dynamodb.UpdateItemInput
}

func (r *recorder) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	r.last = in
	return r.Client.UpdateItem(ctx, in, opts...)
}

// tee is a transport that keeps its last answer.
type tee struct {
	next aws.HTTPClient
	last []byte
}

func (t *tee) Do(r *http.Request) (*http.Response, error) {
	response, err := t.next.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	t.last, err = io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(t.last))
	return response, err
}

// canned is a transport that answers every request with the same body.
type canned struct {
	body     []byte
	checksum string
	requests atomic.Int64
	date     atomic.Pointer[date]
}

// date is the Date of answers within a second.
type date struct {
	second int64
	text   string
}

func newCanned(body []byte) *canned {
	return &canned{body: body, checksum: strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)}
}

func (c *canned) Do(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type": {"application/x-amz-json-1.0"}, "Content-Length": {strconv.Itoa(len(c.body))},
			"X-Amz-Crc32": {c.checksum}, "Date": {c.now()},
		},
		ContentLength: int64(len(c.body)), Body: io.NopCloser(bytes.NewReader(c.body)), Request: r,
	}, nil
}

func (c *canned) now() string {
	now := time.Now()
	if d := c.date.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &date{now.Unix(), now.UTC().Format(http.TimeFormat)}
	c.date.Store(d)
	return d.text
}

// swap is a transport that can be exchanged for another.
type swap struct{ aws.HTTPClient }

// warmed is a limiter whose bucket is in memory, and the update that a further
// acquire sends.
type warmed struct {
	limiter *dynalimit.RateLimiter
	client  *dynamodb.Client
	update  *dynamodb.UpdateItemInput
	answer  []byte
	wire    *swap
	db      *ddbmem.DB
}

// warm makes a bucket and acquires from it until only updates are sent.
func warm(tb testing.TB) *warmed {
	tb.Helper()
	ctx := tb.Context()
	db := ddbmem.New()
	tb.Cleanup(db.Close)
	copied := &tee{next: db}
	wire := &swap{copied}
	r := &recorder{Client: db.Client(func(o *dynamodb.Options) { o.HTTPClient = wire })}
	limiter := limiterOn(tb, r, nil, &dynalimit.Options{Limits: plenty})
	for range 3 {
		_, err := limiter.Acquire(ctx, "user-1", model, typical)
		require.NoError(tb, err)
	}
	require.NotNil(tb, r.last)
	return &warmed{limiter: limiter, client: r.Client, update: r.last, answer: copied.last, wire: wire, db: db}
}

// limiterOn makes a table and a limiter on it.
func limiterOn(tb testing.TB, client dynalimit.DynamoDB, repoOpts *dynalimit.RepositoryOptions, opts *dynalimit.Options) *dynalimit.RateLimiter {
	tb.Helper()
	repo, err := dynalimit.NewRepository(client, "limits", repoOpts)
	require.NoError(tb, err)
	require.NoError(tb, repo.CreateTable(tb.Context()))
	limiter, err := dynalimit.New(repo, opts)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, limiter.Close(context.WithoutCancel(tb.Context()))) })
	return limiter
}

// acquire is a call that must be granted.
func (w *warmed) acquire(tb testing.TB) func() {
	ctx := tb.Context()
	return func() {
		if _, err := w.limiter.Acquire(ctx, "user-1", model, typical); err != nil {
			panic(fmt.Sprintf("an acquire failed: %v", err))
		}
	}
}

// bare is the same update without the limiter.
func (w *warmed) bare(tb testing.TB) func() {
	ctx := tb.Context()
	return func() {
		if _, err := w.client.UpdateItem(ctx, w.update); err != nil {
			panic(fmt.Sprintf("a bare update failed: %v", err))
		}
	}
}
