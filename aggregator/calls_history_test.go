package aggregator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
)

// TestUsageIsWhatLeasesConsumed: a resource's usage is what its calls say they consumed, each
// once, whatever they corrected and however limits, parents and shards changed meanwhile.
func TestUsageIsWhatLeasesConsumed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(histories(t)) {
		synctest.Test(t, func(t *testing.T) { callsHistory(t, seed) })
	}
}

func callsHistory(t *testing.T, seed uint64) {
	t.Helper()
	w, ctx := newWorld(t, seed), t.Context()
	w.db.OnWrite(nil)
	began, consumed := w.clock(), int64(0)
	var open []*dynalimit.Lease
	end := func(lease *dynalimit.Lease) {
		switch w.rnd.IntN(3) {
		case 0:
			require.NoError(t, lease.Rollback(ctx))
		case 1:
			require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"rpm": w.rnd.Int64N(40)}))
		default:
			require.NoError(t, lease.Settle(ctx, nil))
		}
		consumed += lease.Used()["rpm"]
	}
	for range 60 {
		switch n := w.rnd.IntN(20); {
		case n < 10:
			id := []string{"key-0", "key-1", "team"}[w.rnd.IntN(3)]
			lease, err := w.limiter.Acquire(ctx, id, "gpt-4", dynalimit.Amounts{"rpm": 1 + w.rnd.Int64N(20)})
			if err == nil {
				open = append(open, lease)
				continue
			}
			require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		case n < 13 && len(open) > 0:
			lease := open[w.rnd.IntN(len(open))]
			require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"rpm": max(w.rnd.Int64N(60)-20, -lease.Used()["rpm"])}))
		case n < 16 && len(open) > 0:
			i := w.rnd.IntN(len(open))
			end(open[i])
			open = append(open[:i], open[i+1:]...)
		case n == 16:
			require.NoError(t, admin.New(w.repo).Limits.Set(ctx, admin.Scope{Everyone: true}, limits(1+w.rnd.Int64N(4))))
		case n == 17:
			at := admin.Scope{Entity: "team", Resource: "gpt-4"}
			if w.rnd.IntN(2) == 0 {
				require.NoError(t, admin.New(w.repo).Limits.SetUnlimited(ctx, at))
			} else {
				_, err := admin.New(w.repo).Limits.SetConfig(ctx, at, admin.LimitConfig{Limits: limits(3), Version: admin.AnyVersion, Only: true})
				require.NoError(t, err)
			}
		case n == 18:
			require.NoError(t, w.db.SplitStream("limits", 1+w.rnd.IntN(2)))
		default:
			w.now.Add(w.rnd.Int64N(int64(20 * time.Minute)))
		}
	}
	for _, lease := range open {
		end(lease)
	}
	require.NoError(t, w.limiter.Close(ctx))
	w.stream.read()
	p, err := aggregator.New(w.db.Client(), "limits", &aggregator.Options{Retention: -1})
	require.NoError(t, err)
	require.Empty(t, w.deliver(p).Gaps)
	r, err := aggregator.NewReader(w.db.Client(), "limits", &aggregator.ReaderOptions{Now: w.clock})
	require.NoError(t, err)
	told := int64(0)
	for _, u := range all(t, r.Resource(ctx, "gpt-4", aggregator.Query{From: began, To: w.clock().Add(time.Nanosecond)})) {
		for _, l := range u.Limits {
			if l.Limit == "rpm" {
				told += l.Consumed / 1000
			}
		}
	}
	require.Equal(t, consumed, told, "seed %d", seed)
}
