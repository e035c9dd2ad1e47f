package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// acquires is how many TestEveryAcquireIsCounted makes: 2,000, or what
// DYNALIMIT_ACQUIRES says.
func acquires(t *testing.T) int64 {
	t.Helper()
	text := os.Getenv("DYNALIMIT_ACQUIRES")
	if text == "" {
		return 2_000
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// TestEveryAcquireIsCounted: many callers at once take from 50 keys, which cascade into 5
// teams and those into one organisation, for some hours, while the stream is read and its
// shards split. In the end the snapshots of a bucket sum to its counters, and those of the
// organisation to what was granted.
func TestEveryAcquireIsCounted(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, acquires(t))
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() { c.follow(stop) })
	granted := c.take()
	require.NoError(t, c.limiter.Close(t.Context()))
	close(stop)
	reading.Wait()

	snapshots, missing := usage(t, c.db)
	sums := map[spent]int64{}
	hours := map[string]bool{}
	for at, n := range snapshots {
		hours[at.hour] = true
		at.hour = ""
		sums[at] += n
	}
	assert.Equal(t, c.counters(), sums)
	assert.Empty(t, missing)
	assert.Equal(t, granted, sums[spent{entity: "org", resource: "gpt-4", limit: "tpd"}])
	once := int64(0)
	for at, n := range sums {
		switch at.limit {
		case "tpd":
			once += n
		case "tpd^":
			once -= n
		}
	}
	assert.Equal(t, granted, once, "each at the highest level alone")
	assert.Greater(t, len(hours), 2)
	t.Logf("%d acquires, %d records counted, %d repeated", c.most, c.counted, c.repeated)
}

// crowd is a table with a stream, and many callers of a limiter.
type crowd struct {
	t                 *testing.T
	db                *ddbmem.DB
	limiter           *dynalimit.RateLimiter
	processor         *aggregator.Processor
	most              int64
	made              atomic.Int64
	counted, repeated int
}

const noonOfCrowd = 1_774_785_600 // 2026-03-29, 12:00 UTC

// clock moves four hours while all acquires are made.
func (c *crowd) clock() time.Time {
	return time.Unix(noonOfCrowd+c.made.Load()*4*3600/c.most, 0).UTC()
}

func newCrowd(t *testing.T, most int64) *crowd {
	t.Helper()
	c := &crowd{t: t, most: most}
	c.db = ddbmem.New(ddbmem.WithClock(c.clock))
	t.Cleanup(c.db.Close)
	repo, err := dynalimit.NewRepository(c.db.Client(), "limits", &dynalimit.RepositoryOptions{Now: c.clock, Principal: "ann", RequestTimeout: 5 * time.Minute})
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(t.Context()))
	require.NoError(t, admin.New(repo).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("tpd", 1_000_000_000_000), dynalimit.PerDay("rpd", 1_000_000_000)}))
	for i := range 5 {
		require.NoError(t, admin.New(repo).Entities.Create(t.Context(), admin.Entity{ID: fmt.Sprint("team-", i), ParentID: "org", Cascade: true}))
	}
	for i := range 50 {
		require.NoError(t, admin.New(repo).Entities.Create(t.Context(), admin.Entity{ID: fmt.Sprint("key-", i), ParentID: fmt.Sprint("team-", i%5), Cascade: true}))
	}
	c.limiter, err = dynalimit.New(repo, &dynalimit.Options{Timeout: 5 * time.Minute, CleanupTimeout: 5 * time.Minute}) // however busy the machine is
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.limiter.Close(context.WithoutCancel(t.Context())) })
	c.processor, err = aggregator.New(c.db.Client(), "limits", nil)
	require.NoError(t, err)
	return c
}

// take makes the acquires, and returns the tokens that were taken in the end, in
// millitokens.
func (c *crowd) take() int64 {
	var tokens atomic.Int64
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for i := c.made.Add(1); i <= c.most; i = c.made.Add(1) {
				n := 1 + i%100
				lease, err := c.limiter.Acquire(c.t.Context(), fmt.Sprint("key-", i%50), "gpt-4", dynalimit.Amounts{"tpd": n, "rpd": 1})
				if !assert.NoError(c.t, err) {
					return
				}
				if i%7 == 0 {
					n += i % 50
					assert.NoError(c.t, lease.Settle(c.t.Context(), dynalimit.Amounts{"tpd": n}))
				}
				tokens.Add(n * 1000)
				if i%(c.most/5) == 0 {
					assert.NoError(c.t, c.db.SplitStream("limits", int(1+5*i/c.most%2)))
				}
			}
		})
	}
	callers.Wait()
	return tokens.Load()
}

// follow reads the stream until it ends after stop was closed.
func (c *crowd) follow(stop <-chan struct{}) {
	last := map[string]string{} // by shard
	for pass, stopped := 0, false; ; pass++ {
		select {
		case <-stop:
			stopped = true
		default:
		}
		begun := c.clock()
		read, whole := c.pass(last)
		if read == 0 && stopped {
			assert.Greater(c.t, len(last), 1, "shards")
			return
		}
		if whole && pass%20 == 0 { // what was read is not kept in memory
			assert.NoError(c.t, c.db.TrimStream("limits", begun))
		}
	}
}

// pass reads every shard to its end, parents before their children: that is how they are
// listed. It returns how many records there were, and false if there may be more.
func (c *crowd) pass(last map[string]string) (read int, whole bool) {
	ctx, client := c.t.Context(), c.db.StreamsClient()
	table, err := c.db.Client().DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String("limits")})
	require.NoError(c.t, err)
	arn := table.Table.LatestStreamArn
	whole = true
	for shard := range (&shards{t: c.t, db: c.db}).all(arn) {
		id := *shard.ShardId
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: arn, ShardId: &id, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon}
		if at := last[id]; at != "" {
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &at
		}
		iterator, err := client.GetShardIterator(ctx, in)
		require.NoError(c.t, err)
		for next := iterator.ShardIterator; next != nil; {
			out, err := client.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: next})
			if _, slow := errors.AsType[*streamtypes.ExpiredIteratorException](err); slow {
				whole = false // the clock went 15 minutes ahead meanwhile
				break
			}
			require.NoError(c.t, err)
			if len(out.Records) == 0 {
				break
			}
			c.process(id, out.Records)
			last[id] = *out.Records[len(out.Records)-1].Dynamodb.SequenceNumber
			read += len(out.Records)
			next = out.NextShardIterator
		}
	}
	return read, whole
}

// process counts records, and some of them twice.
func (c *crowd) process(shard string, read []streamtypes.Record) {
	records := make([]aggregator.Record, len(read))
	for i, r := range read {
		var err error
		records[i], err = aggregator.FromStream(shard, r)
		require.NoError(c.t, err)
	}
	for _, batch := range [][]aggregator.Record{records, records[len(records)/10*9:]} {
		result, err := c.processor.Process(c.t.Context(), batch)
		require.NoError(c.t, err)
		assert.Empty(c.t, result.Failures)
		assert.Empty(c.t, result.Gaps)
		c.counted += result.Counted
		c.repeated += result.Repeated
	}
}

// counters are what the buckets themselves say was consumed.
func (c *crowd) counters() map[spent]int64 {
	all := map[spent]int64{}
	pages := dynamodb.NewScanPaginator(c.db.Client(), &dynamodb.ScanInput{TableName: aws.String("limits")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(c.t.Context())
		require.NoError(c.t, err)
		for _, item := range page.Items {
			resource, ok := strings.CutPrefix(text(item, "SK"), "#BUCKET#")
			if !ok {
				continue
			}
			for attr, v := range item {
				if name, isCounter := counterOf(attr); isCounter {
					all[spent{entity: strings.TrimPrefix(text(item, "PK"), "ENTITY#"), resource: resource, limit: name}] = number(c.t, v)
				}
			}
		}
	}
	return all
}
