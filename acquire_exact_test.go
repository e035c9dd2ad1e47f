package dynalimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Eight limiters, as eight processes, with 64 goroutines each drain one bucket:
// what is admitted is exactly what the bucket held, and what they give back can
// be taken again, exactly.
func TestManyLimitersAdmitExactly(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		const limiters, callers, burst = 8, 64, 5000
		repo := e.repository(t, nil)
		// A token takes longer to come back than the test runs.
		limit := dynalimit.Limit{Name: "rpm", Capacity: burst, RefillAmount: 1, RefillPeriod: 365 * 24 * time.Hour}
		require.NoError(t, repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{limit}))
		many := make([]*rateLimiter, limiters)
		for i := range many {
			l, err := openLimiter(e.open(t, repo.Table(), nil), nil)
			require.NoError(t, err)
			many[i] = l
		}
		leases := drainExactly(t, many, callers)
		assert.Len(t, leases, burst)

		var back int64
		for _, lease := range leases[:burst/4] {
			require.NoError(t, lease.Rollback(context.WithoutCancel(t.Context())))
			back++
		}
		assert.Len(t, drainExactly(t, many, callers), int(back))
		item, err := repo.store.Get(t.Context(), "test", repo.keys.Bucket("org", "gpt-4"))
		require.NoError(t, err)
		image, err := schema.NewLimitSets().DecodeBucket(item, nil, 0)
		require.NoError(t, err)
		assert.Equal(t, int64(burst*milli), image.Limits[0].Consumed)
		assert.Equal(t, int64(0), image.Limits[0].Tokens)
		for _, l := range many {
			require.NoError(t, l.Close(t.Context()))
		}
	})
}

// drainExactly takes one by one with every caller of every limiter until it is
// denied twice, and returns what was granted.
func drainExactly(t *testing.T, many []*rateLimiter, callers int) []*dynalimit.Lease {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		leases []*dynalimit.Lease
		failed atomic.Pointer[error]
	)
	for _, l := range many {
		for range callers {
			group.Go(func() {
				for denials := 0; denials < 2; {
					lease, err := l.Acquire(t.Context(), "org", "gpt-4", dynalimit.Amounts{"rpm": 1})
					switch {
					case err == nil:
						mu.Lock()
						leases = append(leases, lease)
						mu.Unlock()
					case errors.Is(err, dynalimit.ErrLimitExceeded):
						denials++
					default:
						failed.Store(&err)
						return
					}
				}
			})
		}
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		require.NoError(t, *err)
	}
	return leases
}

// Clients with images of a full bucket share its tokens: the store decides.
func TestStaleImagesDoNotOverAdmit(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.acquire("user-1", dynalimit.Amounts{"tpm": 1})
		var processes []*process
		for range 6 {
			p := s.peer(perMinute())
			p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
			processes = append(processes, p)
		}
		s.clock.advance(time.Minute)
		admitted := 0
		for _, p := range processes { // each has last seen it nearly full
			if _, err := p.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"tpm": 4000}); err == nil {
				admitted++
			} else {
				exceeded := p.denied(err)
				assert.Equal(t, int64(2000), exceeded.Primary().Remaining, "rejected on the state it saw")
				assert.Equal(t, 12*time.Second, exceeded.RetryAfter)
			}
		}
		assert.Equal(t, 2, admitted)
	})
}

// What an open lease holds is gone for everybody else at once.
func TestConsumptionIsVisibleWhileTheLeaseIsOpen(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 6000})
		p.deny("user-1", dynalimit.Amounts{"tpm": 6000})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -3000}))
		s.clock.advance(2 * time.Second)
		p.acquire("user-1", dynalimit.Amounts{"tpm": 6000})
	})
}
