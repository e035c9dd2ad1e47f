package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// harbor is a limiter on a table whose stream is followed.
type harbor struct {
	t       *testing.T
	db      *ddbmem.DB
	repo    *dynalimit.Repository
	limiter *dynalimit.RateLimiter
}

// inHarbor runs a test in virtual time.
func inHarbor(t *testing.T, test func(t *testing.T, h *harbor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New(ddbmem.WithLog())
		t.Cleanup(db.Close)
		repo, err := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ann"})
		require.NoError(t, err)
		require.NoError(t, repo.CreateTable(t.Context()))
		limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerHour("rpm", 1_000_000)}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = limiter.Close(context.WithoutCancel(t.Context())) })
		test(t, &harbor{t, db, repo, limiter})
	})
}

// spend takes a token for each of some entities.
func (h *harbor) spend(entities ...int) {
	h.t.Helper()
	for _, n := range entities {
		lease, err := h.limiter.Acquire(h.t.Context(), fmt.Sprint("key-", n), "gpt-4", dynalimit.Amounts{"rpm": 1})
		require.NoError(h.t, err)
		require.NoError(h.t, lease.Settle(h.t.Context(), nil))
	}
}

// keys are the first n entities.
func keys(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// total is what the snapshots hold, in tokens, of all entities.
func (h *harbor) total() int64 {
	h.t.Helper()
	counted, missing := usage(h.t, h.db)
	require.Empty(h.t, missing)
	total := int64(0)
	for _, n := range counted {
		total += n
	}
	return total / 1000
}

// wire is the clients of one process. When it is cut, no request of it comes through.
type wire struct {
	aggregator.StreamsAPI
	aggregator.TailDynamoDB
	cut atomic.Bool
}

var errCut = errors.New("the process is dead")

func via[In, Out, Option any](ctx context.Context, w *wire, request func(context.Context, In, ...Option) (Out, error), in In, o ...Option) (out Out, err error) {
	if w.cut.Load() {
		return out, errCut
	}
	out, err = request(ctx, in, o...)
	if w.cut.Load() {
		var none Out
		return none, errCut
	}
	return out, err
}

func (w *wire) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	return via(ctx, w, w.StreamsAPI.DescribeStream, in, o...)
}

func (w *wire) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	return via(ctx, w, w.StreamsAPI.GetShardIterator, in, o...)
}

func (w *wire) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	return via(ctx, w, w.StreamsAPI.GetRecords, in, o...)
}

func (w *wire) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return via(ctx, w, w.TailDynamoDB.DescribeTable, in, o...)
}

func (w *wire) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return via(ctx, w, w.TailDynamoDB.GetItem, in, o...)
}

func (w *wire) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return via(ctx, w, w.TailDynamoDB.Query, in, o...)
}

func (w *wire) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return via(ctx, w, w.TailDynamoDB.UpdateItem, in, o...)
}

func (w *wire) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return via(ctx, w, w.TailDynamoDB.TransactWriteItems, in, o...)
}

// log is an observer that remembers.
type log struct {
	aggregator.NopTailObserver
	mu         sync.Mutex
	changes    []aggregator.ShardChange
	held       map[aggregator.Shard]time.Time // since when
	released   map[aggregator.Shard]time.Time
	skipped    []aggregator.RecordSkipped
	trimmed    []aggregator.ShardTrimmed
	disordered []aggregator.RecordDisordered
	retries    []aggregator.TailRetry
	lag        map[aggregator.Shard]aggregator.ShardLag
	gathered   int // at most, over all shards
	gaps       []aggregator.Gap
	calls      int
	counted    int
}

func (l *log) ShardChanged(e aggregator.ShardChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes = append(l.changes, e)
	if e.State == aggregator.ShardTaken {
		l.held[e.Shard] = time.Now()
	} else {
		delete(l.held, e.Shard)
		l.released[e.Shard] = time.Now()
	}
}

func (l *log) Lagged(e aggregator.ShardLag) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lag[e.Shard] = e
	all := 0
	for _, lag := range l.lag {
		all += lag.Gathered
	}
	l.gathered = max(l.gathered, all)
}

func (l *log) Processed(e aggregator.RecordsProcessed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	l.counted += e.Result.Counted
	l.gaps = append(l.gaps, e.Result.Gaps...)
}

func (l *log) Skipped(e aggregator.RecordSkipped) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skipped = append(l.skipped, e)
}

func (l *log) Trimmed(e aggregator.ShardTrimmed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trimmed = append(l.trimmed, e)
}

func (l *log) Disordered(e aggregator.RecordDisordered) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disordered = append(l.disordered, e)
}

func (l *log) Retrying(e aggregator.TailRetry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retries = append(l.retries, e)
}

// shards is how many it holds.
func (l *log) shards() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

// states counts what became of shards.
func (l *log) states() map[aggregator.ShardState]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[aggregator.ShardState]int{}
	for _, c := range l.changes {
		n[c.State]++
	}
	return n
}

// tailer is a process that follows the stream.
type tailer struct {
	*log
	wire *wire
	stop context.CancelFunc
	done chan error
}

// tail starts a process that follows the stream, with the processor unless there is
// something else to do.
func (h *harbor) tail(opts aggregator.TailOptions, process ...aggregator.ProcessFunc) *tailer {
	h.t.Helper()
	once := func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }
	onceStreams := func(o *dynamodbstreams.Options) { o.RetryMaxAttempts = 1 }
	x := &tailer{
		wire: &wire{StreamsAPI: h.db.StreamsClient(onceStreams), TailDynamoDB: h.db.Client(once)}, done: make(chan error, 1),
		log: &log{held: map[aggregator.Shard]time.Time{}, released: map[aggregator.Shard]time.Time{}, lag: map[aggregator.Shard]aggregator.ShardLag{}},
	}
	if len(process) == 0 {
		p, err := aggregator.New(x.wire, "limits", nil)
		require.NoError(h.t, err)
		process = append(process, p.Process)
	}
	opts.Observer = x.log
	tail, err := aggregator.NewTail(x.wire, x.wire, "limits", process[0], &opts)
	require.NoError(h.t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(h.t.Context()))
	x.stop = stop
	go func() { x.done <- tail.Run(ctx) }()
	h.t.Cleanup(stop)
	return x
}

// end stops it, and waits for it.
func (x *tailer) end(t *testing.T) {
	t.Helper()
	x.stop()
	require.NoError(t, <-x.done)
}

// kill ends it as a process that is killed: nothing of what it does then is seen.
func (x *tailer) kill() {
	x.wire.cut.Store(true)
	x.stop()
}

// after lets so much virtual time pass.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestTailCounts: what is consumed is in snapshots once it was gathered for as long as it is
// to be.
func TestTailCounts(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		h.spend(keys(3)...)
		x := h.tail(aggregator.TailOptions{})
		after(30 * time.Second)
		h.spend(keys(3)...)
		assert.Zero(t, h.total(), "it is gathered for a minute")
		after(32 * time.Second)
		assert.EqualValues(t, 6, h.total())
		assert.Equal(t, 1, x.calls)
		h.spend(1)
		after(2 * time.Second)
		assert.EqualValues(t, 6, h.total())
		x.end(t)
		assert.EqualValues(t, 7, h.total(), "what was gathered is processed when it stops")
		assert.Equal(t, map[aggregator.ShardState]int{aggregator.ShardTaken: 1, aggregator.ShardReleased: 1}, x.states())
		assert.Empty(t, x.retries)
	})
}

// TestTakeOverFromTheDead: one of two is killed with its hands full. The other has all its
// shards within the lease and its margin, and nothing is lost or counts twice.
func TestTakeOverFromTheDead(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		require.NoError(t, h.db.SplitStream("limits", 8))
		a, b := h.tail(aggregator.TailOptions{Holder: "a"}), h.tail(aggregator.TailOptions{Holder: "b"})
		after(time.Minute)
		assert.Equal(t, 4, a.shards())
		assert.Equal(t, 4, b.shards())
		h.spend(keys(40)...)
		after(90 * time.Second)
		require.EqualValues(t, 40, h.total())
		h.spend(keys(40)...)
		after(5 * time.Second)
		a.kill()
		killed := time.Now()
		h.spend(keys(40)...)
		for b.shards() < 8 {
			after(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, time.Since(killed), 36*time.Second)
		h.spend(keys(40)...)
		after(time.Minute + 5*time.Second)
		assert.EqualValues(t, 160, h.total())
		<-a.done
		b.end(t)
		assert.Empty(t, b.disordered)
	})
}
