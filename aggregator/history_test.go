package aggregator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
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
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// spent is where consumption is counted, by the hour of the write.
type spent struct {
	entity, resource, limit string
	hour                    string
}

// world is a limiter on a table with a stream, and what was truly consumed there.
type world struct {
	t       *testing.T
	rnd     *rand.Rand
	db      *ddbmem.DB
	now     atomic.Int64 // nanoseconds since 1970
	repo    *dynalimit.Repository
	limiter *dynalimit.RateLimiter
	ledger  map[spent]int64
	leases  []*dynalimit.Lease
	stream  *shards
	// drain has what is in the stream read, before it is trimmed.
	drain func()
}

func (w *world) clock() time.Time { return time.Unix(0, w.now.Load()).UTC() }

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), ledger: map[spent]int64{}}
	w.now.Store(time.Date(2026, 3, 29, 11, 58, 0, 0, time.UTC).UnixNano())
	w.db = ddbmem.New(ddbmem.WithClock(w.clock))
	t.Cleanup(w.db.Close)
	var err error
	w.repo, err = dynalimit.NewRepository(w.db.Client(), "limits", &dynalimit.RepositoryOptions{Now: w.clock, Principal: "ann"})
	require.NoError(t, err)
	require.NoError(t, w.repo.CreateTable(t.Context()))
	w.db.OnWrite(w.count)
	require.NoError(t, admin.New(w.repo).Limits.Set(t.Context(), admin.Scope{Everyone: true}, limits(1)))
	require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), admin.Entity{ID: "key-0", ParentID: "team", Cascade: true}))
	w.limiter, err = dynalimit.New(w.repo, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.limiter.Close(context.WithoutCancel(t.Context())) })
	w.stream = &shards{t: t, db: w.db}
	w.drain = w.stream.read
	return w
}

// limits are those of the system in its n-th version.
func limits(n int64) []dynalimit.Limit {
	all := []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000*n), dynalimit.PerHour("ttl", 1_000_000), dynalimit.PerDay("seq", 1_000_000)}
	return all[:1+n%3]
}

// count keeps the ledger: what every write of a bucket added to its counters, and, under the
// limit's name with ^, to those of what a level above counts too.
func (w *world) count(write ddbmem.Write) {
	item := write.New
	if item == nil {
		return // what is gone was consumed all the same
	}
	resource, ok := strings.CutPrefix(item["SK"].(*types.AttributeValueMemberS).Value, "#BUCKET#")
	if !ok {
		return
	}
	for attr, v := range item {
		name, isCounter := counterOf(attr)
		if !isCounter {
			continue
		}
		diff := number(w.t, v)
		if old := write.Old[attr]; old != nil && reflect.DeepEqual(write.Old["ci"], item["ci"]) {
			diff -= number(w.t, old)
		}
		if diff != 0 {
			entity := strings.TrimPrefix(item["PK"].(*types.AttributeValueMemberS).Value, "ENTITY#")
			w.ledger[spent{entity, resource, name, write.Time.UTC().Truncate(time.Hour).Format(time.RFC3339)}] += diff
		}
	}
}

// counterOf is the name by which snapshots have the counter of an attribute of a bucket.
func counterOf(attr string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(attr, "b_")
	if limit, passed := strings.CutSuffix(rest, "_up"); ok && passed {
		return limit + "^", true
	}
	name, counts := strings.CutSuffix(rest, "_tc")
	return name, ok && counts
}

func number(t *testing.T, v types.AttributeValue) int64 {
	n, err := strconv.ParseInt(v.(*types.AttributeValueMemberN).Value, 10, 64)
	assert.NoError(t, err)
	return n
}

// acrossHour does something just before a full hour, so that what it writes to some entities'
// buckets is written before the hour is full, and the rest just after it.
func (w *world) acrossHour(before []string, do func()) {
	full := w.clock().Truncate(time.Hour).Add(time.Hour)
	w.now.Store(full.Add(-time.Duration(1 + w.rnd.Int64N(int64(20*time.Second)))).UnixNano())
	after := full.Add(time.Duration(w.rnd.Int64N(int64(20 * time.Second)))).UnixNano()
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		to := func(entity string) bool { return strings.Contains(string(r.Body), `"ENTITY#`+entity+`"`) }
		if r.Operation != "UpdateItem" || slices.ContainsFunc(before, to) {
			return ddbmem.Fault{}
		}
		return ddbmem.Fault{Before: 20 * time.Millisecond}
	})
	strikes := time.AfterFunc(10*time.Millisecond, func() { w.now.Store(after) })
	do()
	strikes.Stop()
	w.db.SetFaults(nil)
	w.now.Store(after)
}

// some are some of several, at random.
func (w *world) some(of ...string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(string) bool { return w.rnd.IntN(2) == 0 })
}

// agency is a world of three levels, each with fewer limits than the one below it, of a parent
// that nothing limits, and of somebody alone. No limit is ever changed.

// step does something that services, administrators or DynamoDB do.
func (w *world) step() {
	ctx := w.t.Context()
	entity, resource := fmt.Sprint("key-", w.rnd.IntN(3)), []string{"gpt-4", "org/claude"}[w.rnd.IntN(2)]
	switch n := w.rnd.IntN(21); {
	case n < 10:
		lease, err := w.limiter.Acquire(ctx, entity, resource, dynalimit.Amounts{"rpm": 1 + w.rnd.Int64N(20)})
		if err == nil {
			w.leases = append(w.leases, lease)
		} else if !errors.Is(err, dynalimit.ErrLimitExceeded) {
			require.NoError(w.t, err)
		}
	case n < 15 && len(w.leases) > 0:
		i := w.rnd.IntN(len(w.leases))
		lease := w.leases[i]
		w.leases = slices.Delete(w.leases, i, i+1)
		switch w.rnd.IntN(3) {
		case 0:
			_ = lease.Rollback(ctx)
		case 1:
			_ = lease.Adjust(ctx, dynalimit.Amounts{"rpm": w.rnd.Int64N(60) - 20})
			_ = lease.Settle(ctx, nil)
		case 2:
			_ = lease.Settle(ctx, dynalimit.Amounts{"rpm": w.rnd.Int64N(40)})
		}
	case n == 15:
		require.NoError(w.t, admin.New(w.repo).Entities.Delete(ctx, "key-2"))
	case n == 16:
		require.NoError(w.t, admin.New(w.repo).Limits.Set(ctx, admin.Scope{Everyone: true}, limits(1+w.rnd.Int64N(4))))
		w.repo.InvalidateConfig("", "")
	case n == 17:
		w.drain()                             // the stream keeps a day
		w.now.Add(int64(90 * 24 * time.Hour)) // past every time to live
		w.db.ExpireNow()
	case n == 18:
		require.NoError(w.t, w.db.SplitStream("limits", 1+w.rnd.IntN(2)))
	case n == 19:
		w.putOver(entity, resource)
	default:
		w.now.Add(w.rnd.Int64N(int64(20 * time.Minute)))
	}
}

// putOver puts another bucket over one that is there, in one write, as an import does.
func (w *world) putOver(entity, resource string) {
	key := map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "ENTITY#" + entity}, "SK": &types.AttributeValueMemberS{Value: "#BUCKET#" + resource}}
	got, err := w.db.Client().GetItem(w.t.Context(), &dynamodb.GetItemInput{TableName: aws.String("limits"), Key: key})
	require.NoError(w.t, err)
	if got.Item == nil {
		return
	}
	got.Item["ci"] = &types.AttributeValueMemberB{Value: binary.BigEndian.AppendUint64(nil, w.rnd.Uint64())}
	for attr := range got.Item {
		if _, counts := counterOf(attr); counts {
			got.Item[attr] = &types.AttributeValueMemberN{Value: strconv.FormatInt(w.rnd.Int64N(50_000), 10)}
		}
	}
	_, err = w.db.Client().PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: got.Item})
	require.NoError(w.t, err)
}

// shards reads every shard of a stream.
type shards struct {
	t    *testing.T
	db   *ddbmem.DB
	last map[string]string // by shard
	// records are what came of each shard, in its order; parents are the shards' lineage.
	records map[string][]aggregator.Record
	order   []string
}

// all are the shards of a stream, page after page.
func (s *shards) all(arn *string) iter.Seq[streamtypes.Shard] {
	return func(yield func(streamtypes.Shard) bool) {
		in := &dynamodbstreams.DescribeStreamInput{StreamArn: arn}
		for {
			out, err := s.db.StreamsClient().DescribeStream(s.t.Context(), in)
			require.NoError(s.t, err)
			for _, shard := range out.StreamDescription.Shards {
				if !yield(shard) {
					return
				}
			}
			if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
				return
			}
		}
	}
}

func (s *shards) read() {
	ctx, client := s.t.Context(), s.db.StreamsClient()
	if s.last == nil {
		s.last, s.records = map[string]string{}, map[string][]aggregator.Record{}
	}
	table, err := s.db.Client().DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String("limits")})
	require.NoError(s.t, err)
	arn := table.Table.LatestStreamArn
	for shard := range s.all(arn) {
		id := *shard.ShardId
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: arn, ShardId: &id, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon}
		if last := s.last[id]; last != "" {
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &last
		} else if !slices.Contains(s.order, id) {
			s.order = append(s.order, id)
		}
		iterator, err := client.GetShardIterator(ctx, in)
		if _, trimmed := errors.AsType[*streamtypes.TrimmedDataAccessException](err); trimmed { // a day after what was read last
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeTrimHorizon, nil
			iterator, err = client.GetShardIterator(ctx, in)
		}
		require.NoError(s.t, err)
		out, err := client.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: iterator.ShardIterator})
		require.NoError(s.t, err)
		for _, r := range out.Records {
			record, err := aggregator.FromStream(id, r)
			require.NoError(s.t, err)
			s.records[id] = append(s.records[id], record)
			s.last[id] = record.Sequence
		}
	}
}

// scan is every snapshot of the table.
func scan(t *testing.T, db *ddbmem.DB) (snapshots []map[string]types.AttributeValue) {
	t.Helper()
	pages := dynamodb.NewScanPaginator(db.Client(), &dynamodb.ScanInput{TableName: aws.String("limits")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, item := range page.Items {
			if strings.HasPrefix(text(item, "SK"), "#USAGE#") {
				snapshots = append(snapshots, item)
			}
		}
	}
	return snapshots
}

// usage is what the snapshots in the table say, and what they miss.
func usage(t *testing.T, db *ddbmem.DB) (counted map[spent]int64, missing map[string]int64) {
	t.Helper()
	counted, missing = map[spent]int64{}, map[string]int64{}
	for _, item := range scan(t, db) {
		for attr, v := range item {
			name, field, ok := cut(attr)
			switch {
			case ok && field == "n" && number(t, v) != 0:
				counted[spent{text(item, "entity_id"), text(item, "resource"), name, text(item, "window_start")}] = number(t, v)
			case ok && (field == "m" || field == "e"):
				missing[text(item, "SK")+" "+name+" "+field] = number(t, v)
			}
		}
	}
	return counted, missing
}

func cut(attr string) (name, field string, ok bool) {
	rest, ok := strings.CutPrefix(attr, "u_")
	i := strings.LastIndex(rest, "_")
	if !ok || i < 0 {
		return "", "", false
	}
	return rest[:i], rest[i+1:], true
}

func text(item map[string]types.AttributeValue, name string) string {
	return item[name].(*types.AttributeValueMemberS).Value
}

// deliver gives the records of the shards to a processor as unreliable runners do: in
// batches of any size, shards in any order but children after their parents' records, whole
// and part batches again, after writes that were throttled or whose answers were lost.
func (w *world) deliver(p *aggregator.Processor) aggregator.Result {
	var total aggregator.Result
	next := map[string]int{}
	for {
		var open []string
		for i, id := range w.stream.order {
			ready := true // the shards of a generation follow those before them
			for _, before := range w.stream.order[:i] {
				ready = ready && (next[before] == len(w.stream.records[before]) || !related(w.stream, before, id))
			}
			if ready && next[id] < len(w.stream.records[id]) {
				open = append(open, id)
			}
		}
		if len(open) == 0 {
			return total
		}
		id := open[w.rnd.IntN(len(open))]
		from := next[id]
		to := from + 1 + w.rnd.IntN(len(w.stream.records[id])-from)
		if from > 0 && w.rnd.IntN(3) == 0 {
			from -= w.rnd.IntN(from + 1) // what was processed before comes again
		}
		r, err := p.Process(w.t.Context(), w.stream.records[id][from:to])
		require.NoError(w.t, err)
		total.Counted += r.Counted
		total.Gaps = append(total.Gaps, r.Gaps...)
		if len(r.Failures) > 0 {
			continue // and all of it again, as a runner does
		}
		next[id] = to
	}
}

// related reports whether two shards have records of one item.
func related(s *shards, a, b string) bool {
	seen := map[string]bool{}
	for _, r := range s.records[a] {
		seen[text(r.Keys, "PK")] = true
	}
	return slices.ContainsFunc(s.records[b], func(r aggregator.Record) bool { return seen[text(r.Keys, "PK")] })
}

func histories(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("DYNALIMIT_HISTORIES"))
	if err != nil {
		return 30
	}
	if os.Getenv("DYNALIMIT_TEST_ENDPOINT") != "" {
		return max(1, n/10) // they play on ddbmem, whatever else there is
	}
	return n
}

// TestUsageIsWhatWasConsumed: whatever services, administrators and DynamoDB do, and
// however often and in whatever pieces records come, snapshots are what the counters grew
// by, to the millitoken and in the hour of the write.
func TestUsageIsWhatWasConsumed(t *testing.T) {
	t.Parallel()
	counted := 0
	for seed := range uint64(histories(t)) {
		synctest.Test(t, func(t *testing.T) { counted += history(t, seed) })
	}
	assert.Greater(t, counted, 10*histories(t))
}

// history plays one history, and returns how many records were counted.
func history(t *testing.T, seed uint64) int {
	t.Helper()
	w := newWorld(t, seed)
	for range 60 {
		w.step()
	}
	require.NoError(t, w.limiter.Close(t.Context())) // what it owes is written
	w.stream.read()
	w.db.SetFaults(busy(seed))
	p, err := aggregator.New(w.db.Client(), "limits", &aggregator.Options{Retention: -1, Writers: 1 + int(seed%3)})
	require.NoError(t, err)
	result := w.deliver(p)
	w.db.SetFaults(nil)
	got, missing := usage(t, w.db)
	maps.DeleteFunc(w.ledger, func(_ spent, n int64) bool { return n == 0 })
	require.Equal(t, w.ledger, got, "seed %d", seed)
	require.Empty(t, missing, "seed %d", seed)
	require.Empty(t, result.Gaps, "seed %d", seed)
	return result.Counted
}

// busy throttles some writes, and loses the answers of others.
func busy(seed uint64) ddbmem.FaultFunc {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 2))
	return func(r *ddbmem.Request) ddbmem.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch n := rnd.IntN(8); {
		case r.Operation != "UpdateItem" || n > 1:
			return ddbmem.Fault{}
		case n == 1:
			return ddbmem.Fault{Lose: true}
		}
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException", Message: "busy"}}
	}
}
