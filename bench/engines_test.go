package bench_test

import (
	"testing"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

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
