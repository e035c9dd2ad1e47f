package ddb

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBackoffGrowsToItsBound(t *testing.T) {
	b := Backoff{First: 5 * time.Millisecond, Most: 200 * time.Millisecond}
	for try, bound := range []int{5, 10, 20, 40, 80, 160, 200, 200} {
		most := time.Duration(bound) * time.Millisecond
		longest := time.Duration(0)
		for range 200 {
			w := b.Wait(try)
			assert.Positive(t, w)
			longest = max(longest, w)
		}
		assert.LessOrEqual(t, longest, most)
		assert.Greater(t, longest, most/2, "spread over all of it")
	}
	for _, try := range []int{-1, 40, 63, 64, 1 << 40} {
		assert.Positive(t, b.Wait(try))
		assert.LessOrEqual(t, b.Wait(try), b.Most)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		assert.True(t, Sleep(t.Context(), time.Hour))
		assert.Equal(t, time.Hour, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start = time.Now()
		assert.False(t, Sleep(ctx, time.Hour))
		assert.False(t, Sleep(ctx, 0))
		assert.Equal(t, time.Minute, time.Since(start))
	})
}
