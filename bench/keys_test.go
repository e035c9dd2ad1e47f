package bench_test

import (
	"context"
	"flag"
	"runtime"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

// empty is a table that forgets everything: what grows is the limiter.
type empty struct{ dynalimit.DynamoDB }

func (empty) BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return &dynamodb.BatchGetItemOutput{}, nil
}

func (empty) PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return &dynamodb.PutItemOutput{}, nil
}

// keys is how many buckets a process meets: a million are shown by
//
//	go test -run TestMemoryIsBounded -v -keys 1000000 .
var keys = flag.Int("keys", 200_000, "distinct keys of TestMemoryIsBounded")

// bound is how many buckets and configurations are remembered.
const bound = 10_000

// keyed acquires once from each of many buckets.
type keyed struct {
	limiter *dynalimit.RateLimiter
	keys    int
}

func newKeyed(tb testing.TB) *keyed {
	tb.Helper()
	repo, err := dynalimit.NewRepository(empty{}, "limits", &dynalimit.RepositoryOptions{ConfigCacheSize: bound})
	require.NoError(tb, err)
	limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: plenty, MaxBuckets: bound})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, limiter.Close(context.WithoutCancel(tb.Context()))) })
	return &keyed{limiter: limiter}
}

// reach goes on to the given number of keys and returns the heap then in use.
func (k *keyed) reach(tb testing.TB, keys int) float64 {
	tb.Helper()
	for ; k.keys < keys; k.keys++ {
		_, err := k.limiter.Acquire(tb.Context(), "user-"+strconv.Itoa(k.keys), model, typical)
		require.NoError(tb, err)
	}
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// TestMemoryIsBounded shows that a process that meets many keys remembers no more
// than it was told to.
func TestMemoryIsBounded(t *testing.T) {
	k := newKeyed(t)
	full := k.reach(t, bound)
	few, many := k.reach(t, 100_000), k.reach(t, *keys)
	t.Logf("heap in use: %.1f MB after %d keys, %.1f MB after 100000, %.1f MB after %d", full/1e6, bound, few/1e6, many/1e6, *keys)
	require.Less(t, many, 1.1*few)
}
