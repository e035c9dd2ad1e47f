package dynalimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// The keys of a warm process are called less than once a minute: a call reads the sources of its key alone,
// while its take is written.
func TestCostOfSparseKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerMinute("rpm", 100))
		s.db.SetFaults(after10ms)
		const keys, every = 200, 70 * time.Second
		slowest := time.Duration(0)
		round := func() {
			for i := range keys {
				began := time.Now()
				s.acquire(fmt.Sprint("key-", i), dynalimit.Amounts{"rpm": 1})
				took := time.Since(began)
				slowest = max(slowest, took)
				elapse(every/keys - took)
			}
		}
		round()
		slowest = 0
		used := s.used(round)
		reads, writes := used.ReadUnits()/keys, used.WriteUnits()/keys
		t.Logf("a call: %.2f read units, %.2f write units, %.2f requests, %v behind 10 ms", reads, writes, float64(used.Requests())/keys, slowest)
		assert.Less(t, reads, 3.1)
		assert.Less(t, writes, 1.01)
		assert.Equal(t, 10*time.Millisecond, slowest, "one round trip")
	})
}

// A call on an expired configuration is decided as if it had read first, whatever another process has changed
// meanwhile: a denied call holds nothing, and an admitted one charges the buckets in force.
func TestChangesBehindAnExpiredConfiguration(t *testing.T) {
	all := admin.Scope{Everyone: true}
	ten, one := dynalimit.Amounts{"rpm": 10}, dynalimit.Amounts{"rpm": 1}
	for name, test := range map[string]struct {
		change  func(ctx context.Context, repo *repository) error
		amounts dynalimit.Amounts
		// err is the error of the call, left the tokens in the bucket after it, and parent those in the parent's.
		err          error
		left, parent int64
	}{
		"nothing":             {amounts: ten, left: 90},
		"a lower limit":       {func(ctx context.Context, r *repository) error { return r.SetLimits(ctx, all, perMinuteOf(5)) }, ten, dynalimit.ErrExceedsBurst, 5, 0},
		"a lower limit, room": {func(ctx context.Context, r *repository) error { return r.SetLimits(ctx, all, perMinuteOf(5)) }, one, nil, 4, 0},
		"a higher limit":      {func(ctx context.Context, r *repository) error { return r.SetLimits(ctx, all, perMinuteOf(600)) }, dynalimit.Amounts{"rpm": 101}, dynalimit.ErrLimitExceeded, 100, 0},
		"a block":             {func(ctx context.Context, r *repository) error { return r.SetBlocked(ctx, all, true) }, one, dynalimit.ErrBlocked, 100, 0},
		"another limit": {func(ctx context.Context, r *repository) error {
			return r.SetLimits(ctx, all, append(perMinuteOf(100), dynalimit.PerMinute("tpm", 7)))
		}, dynalimit.Amounts{"rpm": 1, "tpm": 2}, nil, 99, 0},
		"no limit of the name": {func(ctx context.Context, r *repository) error {
			return r.SetLimits(ctx, all, []dynalimit.Limit{dynalimit.PerMinute("tpm", 7)})
		}, one, errUnknownLimit, 100, 0},
		"a parent": {func(ctx context.Context, r *repository) error {
			if err := r.CreateEntity(ctx, admin.Entity{ID: "org"}); err != nil {
				return err
			}
			return r.CreateEntity(ctx, admin.Entity{ID: "key", ParentID: "org", Cascade: true})
		}, ten, nil, 90, 90},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := liveProcess(t, memEngine(t), nil)
				s.limits(all, perMinuteOf(100)...)
				operator := s.open(t, s.repo.table, &dynalimit.RepositoryOptions{Now: time.Now})
				s.acquire("key", one)
				elapse(70 * time.Second)
				if test.change != nil {
					require.NoError(t, test.change(t.Context(), operator))
				}
				s.db.SetFaults(after10ms)
				began := time.Now()
				_, err := s.limiter.Acquire(t.Context(), "key", model, test.amounts)
				switch {
				case test.err == nil:
					require.NoError(t, err)
				case errors.Is(test.err, errUnknownLimit):
					requireInvalid(t, err, "amounts[rpm]")
				default:
					require.ErrorIs(t, err, test.err)
				}
				if test.change == nil {
					assert.Equal(t, 10*time.Millisecond, time.Since(began))
				}
				assert.Equal(t, test.left, s.level("key", "rpm"))
				if test.parent > 0 {
					assert.Equal(t, test.parent, s.level("org", "rpm"))
				}
				granted := int64(0)
				if err == nil {
					granted = test.amounts["rpm"]
				}
				assert.Equal(t, 1+granted, s.stored("key", "rpm").Consumed/1000, "the first call's, and what was granted")
			})
		})
	}
}

// errUnknownLimit stands for a *ValidationError.
var errUnknownLimit = errors.New("unknown limit")

// perMinuteOf is a limit of n requests a minute.
func perMinuteOf(n int64) []dynalimit.Limit { return []dynalimit.Limit{dynalimit.PerMinute("rpm", n)} }
