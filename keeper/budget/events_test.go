package budget

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/prices"
)

// recorder collects the events a hook was told.
type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) hook(_ context.Context, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// take lists what came since the last call, as kind, label and percent.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.events {
		switch e.Kind {
		case EventFlip:
			out = append(out, "flip "+e.From+" to "+e.Label)
		default:
			out = append(out, e.Label+" "+map[int64]string{50: "50", 80: "80", 100: "100"}[e.Percent])
		}
	}
	r.events = nil
	return out
}

func TestThresholdEvents(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		o := fixtureOrg()
		w.org(o)
		var ra, rb recorder
		a, b := w.keeper(&Options{OnEvent: ra.hook}), w.keeper(&Options{OnEvent: rb.hook})
		look := func(k *Keeper) { w.recommend(k, appA) }
		look(a)
		assert.Empty(t, ra.take())
		w.spend(appA, "premium", 5_000_000)
		look(a)
		look(b)
		assert.Equal(t, []string{"premium 50"}, ra.take())
		assert.Empty(t, rb.take(), "claimed once")
		w.spend(appA, "premium", 5_000_000)
		look(b)
		look(a)
		assert.Equal(t, []string{"flip premium to standard", "premium 80", "premium 100"}, rb.take())
		assert.Empty(t, ra.take())

		o.Quotas["premium"] = 12_500_000
		w.org(o)
		w.clock.Advance(35 * time.Second)
		look(a)
		assert.Equal(t, []string{"flip standard to premium", "premium 50", "premium 80"}, ra.take(), "another quota")

		ids := map[string]bool{}
		for e, err := range w.b.Events(t.Context(), orgO, appA) {
			require.NoError(t, err)
			ids[e.ID] = true
		}
		assert.Len(t, ids, 7)
	})
}

// TestUndeliveredEventIsTakenOver: a process that died in its hook left a claim.
func TestUndeliveredEventIsTakenOver(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		var dead, alive recorder
		claimed := w.keeper(&Options{OnEvent: dead.hook})
		w.spend(appA, "premium", 5_000_000)
		e := Event{
			ID: ledger.AppScope(orgO, appA) + "#DAY#20990123#premium#050#10000000", Kind: EventThreshold, Org: orgO,
			Scope: ledger.AppScope(orgO, appA), Day: "20990123", Label: "premium", Percent: 50,
			QuotaMicros: 10_000_000, At: w.clock.Now(),
		}
		require.NoError(t, claimed.store.Put(t.Context(), w.tables.Usage, e.encodeItem("dead", w.clock.Now()), "", nil, nil))
		k := w.keeper(&Options{OnEvent: alive.hook})
		w.recommend(k, appA)
		assert.Empty(t, alive.take(), "left to the process that claimed it")
		w.clock.Advance(59 * time.Second)
		w.recommend(k, appA)
		assert.Empty(t, alive.take())
		w.clock.Advance(6 * time.Second)
		w.recommend(k, appA)
		assert.Equal(t, []string{"premium 50"}, alive.take())
		report, err := k.Sweep(t.Context(), orgO)
		require.NoError(t, err)
		assert.Zero(t, report.Events)
		assert.Empty(t, dead.take())
	})
}

// TestLateCommitIsFollowedByALook: it is acknowledged long after its caller has left,
// and nobody asks after it.
func TestLateCommitIsFollowedByALook(t *testing.T) {
	var r recorder
	simulated(t, Options{OnEvent: r.hook, RequestTimeout: time.Minute}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Recommend(t.Context(), orgO, appA)
		require.NoError(t, err)
		db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation == "TransactWriteItems" {
				return ddbmem.Fault{Before: 12 * time.Second}
			}
			return ddbmem.Fault{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		u := call(1)
		u.Tokens = prices.Tokens{Input: 2_000_000}
		_, err = k.Submit(ctx, orgO, appA, u)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		pass(11 * time.Second)
		assert.Empty(t, r.take(), "nothing is written yet")
		pass(6 * time.Second)
		assert.Equal(t, []string{"premium 50"}, r.take())
	})
}
