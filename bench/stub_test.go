package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestMain(m *testing.M) {
	if body := os.Getenv(serverVariable); body != "" {
		os.Exit(serveStub(body))
	}
	goleak.VerifyTestMain(m)
}

// serverVariable makes the test binary a stub server: what it answers is the
// variable's value, and it ends with its standard input.
const serverVariable = "DYNALIMIT_BENCH_STUB"

// serveStub answers every request on a loopback port with the same body, and
// prints the address.
func serveStub(body string) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	checksum := strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.Header().Set("X-Amz-Crc32", checksum)
		_, _ = io.WriteString(w, body)
	})}
	go func() { _ = server.Serve(listener) }()
	fmt.Println(listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Close()
	return 0
}

// onServer sends requests to a stub server in a process of its own, so that its
// work is not counted.
type onServer struct {
	client *http.Client
	addr   string
}

func startServer(tb testing.TB, body []byte) *onServer {
	tb.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), serverVariable+"="+string(body))
	stdin, err := process.StdinPipe()
	require.NoError(tb, err)
	stdout, err := process.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, process.Start())
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(tb, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = stdin.Close()
		_ = process.Wait()
	})
	return &onServer{client: &http.Client{Transport: transport}, addr: strings.TrimSpace(addr)}
}

func (s *onServer) Do(r *http.Request) (*http.Response, error) {
	r.URL.Scheme, r.URL.Host = "http", s.addr
	return s.client.Do(r)
}

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

// BenchmarkInProcess sets the limiter on its embedded engine, which runs every
// expression as DynamoDB would, beside limiters that count in memory alone. One
// limit, one token a call, never denied; many is 64 goroutines to a processor.
func BenchmarkInProcess(b *testing.B) {
	b.Run("dynalimit-ddbmem", func(b *testing.B) {
		db := ddbmem.New()
		b.Cleanup(db.Close)
		limiter := limiterOn(b, db.Client(), nil, &dynalimit.Options{Limits: plenty[:1]})
		ctx, amounts := b.Context(), dynalimit.Amounts{"rpm": 1}
		aloneAndMany(b, func() bool {
			_, err := limiter.Acquire(ctx, "user-1", model, amounts)
			return err == nil
		})
	})
	b.Run("x-time-rate", func(b *testing.B) {
		limiter := rate.NewLimiter(rate.Limit(1e9), 1e9)
		aloneAndMany(b, limiter.Allow)
	})
	b.Run("go-limiter-memory", func(b *testing.B) {
		// Its tokens come back only at the end of an interval.
		store, err := memorystore.New(&memorystore.Config{Tokens: 1e9, Interval: time.Hour})
		require.NoError(b, err)
		ctx := b.Context()
		b.Cleanup(func() { require.NoError(b, store.Close(ctx)) })
		aloneAndMany(b, func() bool {
			_, _, _, ok, err := store.Take(ctx, "user-1")
			return ok && err == nil
		})
	})
}

func aloneAndMany(b *testing.B, take func() bool) {
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !take() {
				b.Fatal("denied")
			}
		}
	})
	b.Run("many", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(64)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if !take() {
					b.Error("denied")
					return
				}
			}
		})
	})
}
