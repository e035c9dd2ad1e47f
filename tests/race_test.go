package tests

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit"
)

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
