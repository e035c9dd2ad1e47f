package tests

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// Many goroutines of several processes do everything at once on few keys: for
// the race detector, and the books must balance at the end.
func TestManyGoroutinesOnFewKeys(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		first := newProcess(t, e, nil)
		limits := []dynalimit.Limit{dynalimit.PerHour("rpm", 20_000), dynalimit.PerHour("tpm", 2_000_000)}
		require.NoError(t, first.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, limits))
		keys := []string{"key-0", "key-1", "key-2"}
		require.NoError(t, first.repo.CreateEntity(t.Context(), admin.Entity{ID: "project"}))
		for _, key := range keys {
			require.NoError(t, first.repo.CreateEntity(t.Context(), admin.Entity{ID: key, ParentID: "project", Cascade: true}))
		}
		processes := []*process{first, first.peer(nil), first.peer(nil)}
		kept := make([]atomic.Int64, len(keys))
		var wg sync.WaitGroup
		for worker := range 24 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(worker), 7))
				p := processes[worker%len(processes)]
				for range 12 {
					which := random.IntN(len(keys))
					held := everyCall(t, p, keys[which], random)
					kept[which].Add(held)
					if random.IntN(8) == 0 {
						first.clock.advance(time.Duration(random.IntN(2000)) * time.Millisecond)
					}
				}
			})
		}
		wg.Wait()
		for _, p := range processes {
			require.NoError(t, p.limiter.Close(t.Context()))
		}
		total := int64(0)
		for i, key := range keys {
			total += kept[i].Load()
			assert.Equal(t, kept[i].Load()*milli, first.stored(key, "tpm").Consumed, key)
		}
		assert.Equal(t, total*milli, first.stored("project", "tpm").Consumed)
	})
}

// everyCall does one of everything and returns what the lease kept of tpm.
func everyCall(t *testing.T, p *process, key string, random *rand.Rand) int64 {
	ctx := t.Context()
	var opts []dynalimit.AcquireOption
	if random.IntN(4) == 0 {
		opts = append(opts, dynalimit.WithCascade(dynalimit.CascadeTransaction))
	}
	asked := int64(1 + random.IntN(200))
	lease, err := p.limiter.Acquire(ctx, key, model, dynalimit.Amounts{"rpm": 1, "tpm": asked}, opts...)
	if !assert.NoError(t, err) {
		return 0
	}
	_, _ = lease.Statuses(), lease.Degraded()
	switch random.IntN(6) {
	case 0:
		assert.NoError(t, lease.Rollback(ctx))
	case 1:
		assert.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"tpm": asked / 2}))
	case 2:
		assert.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"tpm": 57}))
	case 3:
		assert.NoError(t, lease.Consume(ctx, dynalimit.Amounts{"tpm": 13}))
	case 4:
		_, err := p.limiter.Check(ctx, key, model, dynalimit.Amounts{"tpm": 1})
		assert.NoError(t, err)
	default:
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := p.limiter.Acquire(ended, key, model, dynalimit.Amounts{"rpm": 1})
		assert.ErrorIs(t, err, context.Canceled)
	}
	return lease.Consumed()["tpm"]
}

// Callers of many processes for the last tokens: exactly as many as fit.
func TestRaceForTheLastTokens(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		opts := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 50), dynalimit.PerDay("tpm", 5000)}}
		first := newProcess(t, e, opts)
		processes := []*process{first, first.peer(opts), first.peer(opts), first.peer(opts)}
		var admitted, denied atomic.Int64
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				p := processes[i%len(processes)]
				_, err := p.limiter.Acquire(t.Context(), "shared", model, dynalimit.Amounts{"rpm": 1, "tpm": 100})
				switch {
				case err == nil:
					admitted.Add(1)
				case errors.Is(err, dynalimit.ErrLimitExceeded):
					denied.Add(1)
				default:
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, int64(50), admitted.Load())
		assert.Equal(t, int64(50), denied.Load())
		assert.Zero(t, first.level("shared", "tpm"))
	})
}
