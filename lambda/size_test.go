package lambda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestRecordsOfACall: 6 MB, which Lambda sends at once at most, hold 3,000 records of buckets
// with two limits. docs/cost.md counts with it.
func TestRecordsOfACall(t *testing.T) {
	t.Parallel()
	db := ddbmem.New()
	t.Cleanup(db.Close)
	repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(t.Context()))
	limiter, err := dynalimit.New(repo, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, limiter.Close(t.Context())) })
	limits := dynalimit.WithLimits(dynalimit.PerMinute("rpm", 1_000_000), dynalimit.PerMinute("tpm", 1_000_000))
	for range 2 {
		_, err := limiter.Acquire(t.Context(), "tenant-10", "gpt-4", dynalimit.Amounts{"rpm": 1, "tpm": 500}, limits)
		require.NoError(t, err)
	}
	all := engine{db.Client(), db.StreamsClient()}.records(t, "limits")
	shard := all[len(all)-1]
	size := len(payload(t, lambdaRecord(t, shard[len(shard)-1])))
	t.Logf("%d bytes", size)
	require.LessOrEqual(t, 3000*size, 6<<20)
}
