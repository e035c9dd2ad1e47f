package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
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
	// bend changes what is read; nil for not.
	bend func(*dynamodbstreams.GetRecordsOutput)
	// hidden is a shard that is not listed, gone one that cannot be read; nil for none.
	hidden, gone atomic.Pointer[string]
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
	out, err := via(ctx, w, w.StreamsAPI.DescribeStream, in, o...)
	if hidden := w.hidden.Load(); hidden != nil && err == nil {
		d := out.StreamDescription
		d.Shards = slices.DeleteFunc(d.Shards, func(s streamtypes.Shard) bool { return *s.ShardId == *hidden })
	}
	return out, err
}

func (w *wire) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	if gone := w.gone.Load(); gone != nil && *in.ShardId == *gone {
		return nil, &streamtypes.ResourceNotFoundException{Message: aws.String("Shard does not exist")}
	}
	return via(ctx, w, w.StreamsAPI.GetShardIterator, in, o...)
}

func (w *wire) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	if gone := w.gone.Load(); gone != nil && strings.Contains(*in.ShardIterator, *gone) {
		return nil, &streamtypes.ResourceNotFoundException{Message: aws.String("Shard does not exist")}
	}
	out, err := via(ctx, w, w.StreamsAPI.GetRecords, in, o...)
	if w.bend != nil && err == nil {
		w.bend(out)
	}
	return out, err
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

func (l *log) observer() aggregator.TailObserver {
	return aggregator.TailObserver{
		ShardChanged: l.ShardChanged, Lagged: l.Lagged, Processed: l.Processed, Skipped: l.Skipped,
		Trimmed: l.Trimmed, Disordered: l.Disordered, Retrying: l.Retrying,
	}
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
	return h.bent(nil, opts, process...)
}

// bent is tail with something that changes what is read.
func (h *harbor) bent(bend func(*dynamodbstreams.GetRecordsOutput), opts aggregator.TailOptions, process ...aggregator.ProcessFunc) *tailer {
	h.t.Helper()
	once := func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }
	onceStreams := func(o *dynamodbstreams.Options) { o.RetryMaxAttempts = 1 }
	x := &tailer{
		wire: &wire{StreamsAPI: h.db.StreamsClient(onceStreams), TailDynamoDB: h.db.Client(once), bend: bend}, done: make(chan error, 1),
		log: &log{held: map[aggregator.Shard]time.Time{}, released: map[aggregator.Shard]time.Time{}, lag: map[aggregator.Shard]aggregator.ShardLag{}},
	}
	if len(process) == 0 {
		p, err := aggregator.New(x.wire, "limits", &aggregator.Options{Retention: -1})
		require.NoError(h.t, err)
		process = append(process, p.Process)
	}
	opts.Observer = x.observer()
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

// remembered are the items of followers of the stream whose sort keys begin so.
func (h *harbor) remembered(prefix string) map[string]map[string]types.AttributeValue {
	h.t.Helper()
	out, err := h.db.Client().Query(h.t.Context(), &dynamodb.QueryInput{
		TableName: aws.String("limits"), KeyConditionExpression: aws.String("PK = :p AND begins_with(SK, :s)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":p": &types.AttributeValueMemberS{Value: "TAIL#usage"}, ":s": &types.AttributeValueMemberS{Value: prefix},
		},
	})
	require.NoError(h.t, err)
	items := map[string]map[string]types.AttributeValue{}
	for _, item := range out.Items {
		items[text(item, "SK")] = item
	}
	return items
}

// put stores the bucket of an entity whose counter is a text.
func put(t *testing.T, h *harbor, entity, counter string) {
	t.Helper()
	_, err := h.db.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: map[string]types.AttributeValue{
		"PK": &types.AttributeValueMemberS{Value: "ENTITY#" + entity}, "SK": &types.AttributeValueMemberS{Value: "#BUCKET#gpt-4"},
		"b_rpm_tc": &types.AttributeValueMemberS{Value: counter},
	}})
	require.NoError(t, err)
}

// TestTailBadInput: names the field and what to give.
func TestTailBadInput(t *testing.T) {
	db := ddbmem.New()
	make := func(o aggregator.TailOptions) error {
		return second(aggregator.NewTail(db.StreamsClient(), db.Client(), "limits", ignore, &o))
	}
	for want, err := range map[string]error{
		"streams":            second(aggregator.NewTail(nil, db.Client(), "limits", ignore, nil)),
		"client":             second(aggregator.NewTail(db.StreamsClient(), nil, "limits", ignore, nil)),
		"table":              second(aggregator.NewTail(db.StreamsClient(), db.Client(), "", ignore, nil)),
		"process":            second(aggregator.NewTail(db.StreamsClient(), db.Client(), "limits", nil, nil)),
		"options.Name":       make(aggregator.TailOptions{Name: "Usage 1"}),
		"options.Holder":     make(aggregator.TailOptions{Holder: strings.Repeat("h", 257)}),
		"options.FoldEvery":  make(aggregator.TailOptions{FoldEvery: 6 * time.Minute}),
		"options.MaxRecords": make(aggregator.TailOptions{MaxRecords: -1}),
		"options.Hold":       make(aggregator.TailOptions{Hold: time.Millisecond}),
		"options.Poll":       make(aggregator.TailOptions{Poll: -1}),
		"options.Tries":      make(aggregator.TailOptions{Tries: -1}),
		"options.Drain":      make(aggregator.TailOptions{Drain: -1}),
		"options.Now":        make(aggregator.TailOptions{Now: func() time.Time { return time.Time{} }}),
	} {
		var invalid *dynalimit.ValidationError
		require.ErrorAs(t, err, &invalid, want)
		assert.Equal(t, want, invalid.Field)
	}
	assert.ErrorContains(t, make(aggregator.TailOptions{Poll: 9 * time.Millisecond}), "options.Poll")
	assert.NoError(t, make(aggregator.TailOptions{Poll: 10 * time.Millisecond}))
}

// TestOneRunAtATime: a Tail is run once at a time, and again after that.
func TestOneRunAtATime(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		tail, err := aggregator.NewTail(h.db.StreamsClient(), h.db.Client(), "limits", ignore, nil)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- tail.Run(ctx) }()
		after(time.Second)
		require.ErrorContains(t, tail.Run(ctx), "runs already")
		stop()
		require.NoError(t, <-done)
		require.NoError(t, tail.Run(ctx), "ctx has ended")
	})
}
