package aggregator_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/testworld/spend"
)

// A month of three organisations with twelve teams, sixty keys and four models: the usage in money of each entity equals
// that of its leases to the micro-dollar, and so does each model's part. Answers are lost, processes die with open leases,
// and the table fails for an hour. The calls name one of the two quotas of an organisation.
func TestMonthOfMoneyEqualsItsLeases(t *testing.T) { synctest.Test(t, checkMonthOfMoney) }

func checkMonthOfMoney(t *testing.T) {
	ctx, start := t.Context(), time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	w := spend.New(t, start.Add(time.Minute), 0)
	random, updates := rand.New(rand.NewPCG(41, 2)), atomic.Int64{} //nolint:gosec // the same month each time
	loses := func(r *ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Lose: r.Operation == "UpdateItem" && updates.Add(1)%37 == 0}
	}
	drops := func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} }
	keys, leases, ledger := spend.ListKeys(), 0, map[[2]string]int64{} // by entity and model, and by entity
	for day := range 31 {
		for _, hour := range []int{9, 21} {
			w.SetTime(start.AddDate(0, 0, day).Add(time.Duration(hour) * time.Hour))
			faults, calls := loses, 5
			if day == 10 && hour == 9 {
				faults, calls = drops, 1
			}
			w.DB.SetFaults(faults)
			for range calls {
				of, model := keys[random.IntN(len(keys))], spend.Models[random.IntN(len(spend.Models))]
				used := 1 + random.Int64N(90_000)
				lease, err := w.Limiter.Acquire(ctx, of[0], model, dynalimit.Amounts{"usd": 2 * used})
				if err != nil {
					continue
				}
				if leases++; random.IntN(9) == 0 { // its process dies
					used *= 2
				} else {
					require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"usd": used}))
				}
				for _, id := range of {
					ledger[[2]string{id}] += 1000 * used
					ledger[[2]string{id, model}] += 1000 * used
				}
			}
			w.DB.SetFaults(nil)
			w.SetTime(w.Now().Add(40 * time.Minute))
			w.FollowStream(ctx)
			w.CloseHours(ctx)
			<-time.After(40 * time.Minute) // the limiter's own timers run too: its outage ends
		}
	}
	w.SetTime(start.AddDate(0, 1, 0).Add(3 * time.Hour))
	w.FollowStream(ctx)
	w.CloseHours(ctx)
	assert.Greater(t, leases, 290)
	shown := map[[2]string]int64{}
	for u, err := range w.Reader.Entities(ctx, aggregator.Query{Resource: "all", From: start, To: start.AddDate(0, 1, 0), Window: aggregator.Day}) {
		require.NoError(t, err)
		for _, l := range u.Limits {
			if l.Limit != "usd" {
				continue
			}
			assert.Equal(t, "usd", l.Unit)
			shown[[2]string{u.Entity}] += l.Consumed
			for model, n := range l.ByModel {
				shown[[2]string{u.Entity, model}] += n
			}
		}
	}
	assert.Equal(t, ledger, shown)
}
