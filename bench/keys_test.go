package bench_test

import (
	"context"
	"flag"
	"runtime"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/program"
)

// empty is a table that forgets everything: what grows is the limiter.
type empty struct{ dynalimit.DynamoDB }

// BatchGetItem finds the table's version record alone.
func (empty) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	for table, asked := range in.RequestItems {
		for _, key := range asked.Keys {
			if sk, ok := key["SK"].(*types.AttributeValueMemberS); ok && sk.Value == "#VERSION" {
				return &dynamodb.BatchGetItemOutput{Responses: map[string][]map[string]types.AttributeValue{table: {version}}}, nil
			}
		}
	}
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]map[string]types.AttributeValue{}}
	for table := range in.RequestItems {
		out.Responses[table] = nil
	}
	return out, nil
}

// version is the version record of a table that nothing of an older layout is in.
var version = map[string]types.AttributeValue{
	"PK": &types.AttributeValueMemberS{Value: "SYSTEM#"}, "SK": &types.AttributeValueMemberS{Value: "#VERSION"},
	"schema_version": &types.AttributeValueMemberS{Value: "0.8.0"}, "composite_only": &types.AttributeValueMemberBOOL{Value: true},
}

func (empty) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return &dynamodb.UpdateItemOutput{Attributes: version}, nil
}

// bound is how many buckets and configurations are remembered.
const bound = 10_000

// perKey is how many buckets a process remembers at once: a million are shown by
//
//	go test -run TestMemoryPerKey -v -per-key 1000000 .
var perKey = flag.Int("per-key", 50_000, "keys of TestMemoryPerKey")

// keyed acquires once from each of many buckets.
type keyed struct {
	limiter *dynalimit.RateLimiter
	keys    int
}

func newKeyed(tb testing.TB, bound int) *keyed {
	tb.Helper()
	repo, err := dynalimit.NewRepository(empty{}, "limits", &dynalimit.RepositoryOptions{ConfigCacheSize: bound})
	require.NoError(tb, err)
	limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: plenty, MaxBuckets: bound})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, limiter.Close(context.WithoutCancel(tb.Context()))) })
	return &keyed{limiter: limiter}
}

// reach goes on to the given number of keys and returns the heap then in use: bytes and
// objects.
func (k *keyed) reach(tb testing.TB, keys int) (size, objects float64) {
	tb.Helper()
	for ; k.keys < keys; k.keys++ {
		_, err := k.limiter.Acquire(tb.Context(), "user-"+strconv.Itoa(k.keys), model, typical)
		require.NoError(tb, err)
	}
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.HeapObjects)
}

// TestMemoryIsBounded shows that a process that meets many keys remembers no more
// than it was told to.
func TestMemoryIsBounded(t *testing.T) {
	few, many := heapAfter(t, 6*bound)
	require.Less(t, many, 1.1*few)
}

// BenchmarkHeap is the heap in use after 20,000 keys, and a million.
func BenchmarkHeap(b *testing.B) {
	var few, many float64
	for b.Loop() {
		few, many = heapAfter(b, 1_000_000)
	}
	program.Report(b, program.Values{"few-MB": few / 1e6, "many-MB": many / 1e6, "many/few": many / few})
}

// heapAfter is the heap in use after twice as many keys as are remembered, and after more.
func heapAfter(tb testing.TB, keys int) (few, many float64) {
	k := newKeyed(tb, bound)
	few, _ = k.reach(tb, 2*bound)
	many, _ = k.reach(tb, keys)
	return few, many
}

// TestMemoryPerKey shows what a process keeps of a bucket and its configuration: a
// million fit in a gigabyte, and their objects are few, for the collector visits each.
func TestMemoryPerKey(t *testing.T) {
	k := newKeyed(t, *perKey)
	sizeBefore, objectsBefore := k.reach(t, 0)
	size, objects := k.reach(t, *perKey)
	n := float64(*perKey)
	size, objects = (size-sizeBefore)/n, (objects-objectsBefore)/n
	t.Logf("a key takes %.0f bytes in %.2f objects", size, objects)
	require.Less(t, size, 1050.)
	require.Less(t, objects, 9.)
}
