package lambda_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/lambda"
)

// unreliable refuses some writes for good, and loses the answers of others.
type unreliable struct {
	*dynamodb.Client
	rnd             *rand.Rand
	refused, losing int
}

func (u *unreliable) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	n := u.rnd.IntN(24)
	if n < 4 {
		u.refused++
		return nil, &types.ResourceInUseException{}
	}
	out, err := u.Client.UpdateItem(ctx, in, o...)
	if n == 4 && err == nil {
		u.losing++
		return nil, errors.New("the answer was lost")
	}
	return out, err
}

// use has a limiter serve calls of a few entities on a new table.
func (e engine) use(t *testing.T, rnd *rand.Rand, calls int) (table string) {
	t.Helper()
	ctx, table := t.Context(), newTable()
	repo, err := dynalimit.NewRepository(e.client, table, &dynalimit.RepositoryOptions{Principal: "ann"})
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(ctx))
	t.Cleanup(func() {
		_, _ = e.client.DeleteTable(context.WithoutCancel(ctx), &dynamodb.DeleteTableInput{TableName: &table})
	})
	limits := []dynalimit.Limit{dynalimit.PerMinute("rpm", 100_000), dynalimit.PerMinute("ttl", 100_000)}
	require.NoError(t, admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true}, limits))
	require.NoError(t, admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "key-0", ParentID: "team", Cascade: true}))
	limiter, err := dynalimit.New(repo, nil)
	require.NoError(t, err)
	for range calls {
		entity, resource := fmt.Sprint("key-", rnd.IntN(3)), []string{"gpt-4", "org/claude"}[rnd.IntN(2)]
		lease, err := limiter.Acquire(ctx, entity, resource, dynalimit.Amounts{"rpm": 1 + rnd.Int64N(20), "ttl": 1})
		require.NoError(t, err)
		switch rnd.IntN(4) {
		case 0:
			require.NoError(t, lease.Rollback(ctx))
		case 1:
			require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"rpm": rnd.Int64N(40)}))
		}
	}
	require.NoError(t, limiter.Close(ctx))
	return table
}

// TestUsageIsWhatTheBucketsCount: in batches of any size, of which whole and parts come
// again, although writes fail and answers are lost.
func TestUsageIsWhatTheBucketsCount(t *testing.T) {
	testEngines(t, func(t *testing.T, e engine) {
		rnd := rand.New(rand.NewPCG(7, 1))
		table := e.use(t, rnd, 150)
		shards := e.records(t, table)
		want := e.counters(t, table)
		require.Len(t, want, 16, "three entities and a parent, two resources, two limits")

		client := &unreliable{Client: e.client, rnd: rnd}
		processor, err := aggregator.New(client, table, &aggregator.Options{Writers: 1})
		require.NoError(t, err)
		var total lambda.Report
		h, err := lambda.NewHandler(processor.Process, nil, &lambda.Options{Observe: func(r lambda.Report) {
			total.Counted += r.Counted
			total.Repeated += r.Repeated
			total.Again += r.Again
			total.Gaps += r.Gaps
		}})
		require.NoError(t, err)
		for _, records := range shards {
			deliver(t, rnd, h, records)
		}
		assert.Equal(t, want, e.usage(t, table))
		assert.Zero(t, total.Gaps)
		assert.Positive(t, client.refused)
		assert.Positive(t, client.losing)
		assert.Positive(t, total.Again)
		assert.Positive(t, total.Repeated)
	})
}

// deliver sends the records of a shard as Lambda does: what a function wants again comes
// again, from there on, in a batch that may be larger or smaller. Some come again although
// nobody asked.
func deliver(t *testing.T, rnd *rand.Rand, h *lambda.Handler, records []streamtypes.Record) {
	t.Helper()
	for next := 0; next < len(records); {
		from, to := next, next+1+rnd.IntN(min(40, len(records)-next))
		if rnd.IntN(4) == 0 {
			from -= rnd.IntN(from + 1)
		}
		var batch []any
		for _, r := range records[from:to] {
			batch = append(batch, lambdaRecord(t, r))
		}
		again := call(t.Context(), t, h, payload(t, batch...))
		if again == "" {
			next = to
			continue
		}
		at := slices.IndexFunc(records, func(r streamtypes.Record) bool { return *r.Dynamodb.SequenceNumber == again })
		require.GreaterOrEqual(t, at, from)
		require.Less(t, at, to)
		next = max(next, at) // what was taken once is not asked for again
	}
}
