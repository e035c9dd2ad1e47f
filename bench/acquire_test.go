package bench_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// BenchmarkAcquire compares a warm acquire of two limits by one goroutine with
// the SDK's UpdateItem of the same expression, names, values and return values:
// on a transport that answers at once, on a stub server on loopback, and on
// ddbmem.
func BenchmarkAcquire(b *testing.B) {
	b.Run("stub", func(b *testing.B) {
		w := warm(b)
		stub := newCanned(w.answer)
		w.wire.HTTPClient = stub
		compare(b, w.acquire(b), w.bare(b))
		require.EqualValues(b, 2*(b.N+2*block), stub.requests.Load(), "an acquire is one request")
	})
	b.Run("server", func(b *testing.B) {
		w := warm(b)
		w.wire.HTTPClient = startServer(b, w.answer)
		compare(b, w.acquire(b), w.bare(b))
	})
	b.Run("ddbmem", func(b *testing.B) {
		w := warm(b)
		w.wire.HTTPClient = w.db
		compare(b, w.acquire(b), w.bare(b))
	})
}

// silent is a client that, once told to, gives its last answer again without
// asking anybody: what is left is the limiter's own cost.
type silent struct {
	*dynamodb.Client
	last  *dynamodb.UpdateItemOutput
	quiet bool
}

func (s *silent) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if s.quiet {
		return s.last, nil
	}
	var err error
	s.last, err = s.Client.UpdateItem(ctx, in, opts...)
	return s.last, err
}

// BenchmarkOwn is a warm acquire without the SDK: the place to profile.
func BenchmarkOwn(b *testing.B) {
	w := warm(b)
	client := &silent{Client: w.client}
	limiter := limiterOn(b, client, nil, &dynalimit.Options{Limits: plenty})
	own := &warmed{limiter: limiter}
	acquire := own.acquire(b)
	acquire()
	acquire()
	client.quiet = true
	b.ReportAllocs()
	for b.Loop() {
		acquire()
	}
}

// BenchmarkPrefetched is an acquire from what was debited ahead, and its part of the
// writes that debit it.
func BenchmarkPrefetched(b *testing.B) {
	acquire, db := ahead(b)
	before := db.Meter()
	b.ReportAllocs()
	for b.Loop() {
		acquire()
	}
	used := db.Meter().Sub(before)
	b.ReportMetric(float64(used.Requests())/float64(b.N), "requests/op")
	b.ReportMetric(used.WriteUnits()/float64(b.N), "wcu/op")
}

// TestBareUpdateIsTheSame keeps the comparison honest: the update that is sent
// bare is accepted as it stands.
func TestBareUpdateIsTheSame(t *testing.T) {
	w := warm(t)
	before := w.db.Meter()
	w.bare(t)()
	w.acquire(t)()
	used := w.db.Meter().Sub(before)
	require.EqualValues(t, 2, used.Operations["UpdateItem"].Requests)
	require.EqualValues(t, 2, used.Requests())
	require.Zero(t, used.Refused())
}

// exhausted is a limiter whose clock stands still and whose bucket is empty, so
// that its memory of that stays fresh.
func exhausted(tb testing.TB) (*dynalimit.RateLimiter, *ddbmem.DB) {
	tb.Helper()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return noon }
	db := ddbmem.New(ddbmem.WithClock(now))
	tb.Cleanup(db.Close)
	limiter := limiterOn(tb, db.Client(), &dynalimit.RepositoryOptions{Now: now, Principal: "bench"}, &dynalimit.Options{
		Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 10), dynalimit.PerMinute("tpm", 500)},
	})
	_, err := limiter.Acquire(tb.Context(), "user-1", model, typical)
	require.NoError(tb, err)
	return limiter, db
}

// BenchmarkDenialFromMemory is a denial that the last image proves.
func BenchmarkDenialFromMemory(b *testing.B) {
	limiter, db := exhausted(b)
	ctx := b.Context()
	before := db.Meter()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := limiter.Acquire(ctx, "user-1", model, typical); err == nil {
			b.Fatal("an empty bucket granted something")
		}
	}
	b.ReportMetric(float64(db.Meter().Sub(before).Requests()), "requests")
}

func TestDenialFromMemoryAsksNobody(t *testing.T) {
	limiter, db := exhausted(t)
	before := db.Meter()
	for range 1000 {
		_, err := limiter.Acquire(t.Context(), "user-1", model, typical)
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
	}
	require.Zero(t, db.Meter().Sub(before).Requests())
}
