package bench_test

import (
	"testing"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// BenchmarkArithmetic is the pure part of a decision about one limit.
func BenchmarkArithmetic(b *testing.B) {
	const now = 1_767_355_200_000
	s := bucket.State{
		Rate:   bucket.Rate{Burst: 90_000_000, Amount: 90_000_000, Period: 60_000},
		Tokens: 12_345_678, Refilled: now - 1234,
	}
	amounts := bucket.Amounts{Take: 500_000}
	b.Run("level", func(b *testing.B) {
		for b.Loop() {
			s.Level(now)
		}
	})
	b.Run("wait", func(b *testing.B) {
		for b.Loop() {
			s.Wait(now, 80_000_000)
		}
	})
	b.Run("spend", func(b *testing.B) {
		for b.Loop() {
			s.Decide(now, amounts, bucket.Way{})
		}
	})
	b.Run("claim", func(b *testing.B) {
		for b.Loop() {
			s.Decide(now, amounts, bucket.Way{Move: true})
		}
	})
}
