package budget

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// outages are ways of a store not to answer.
var outages = map[string]ddbmem.Fault{
	"hangs": {Before: time.Hour}, "resets": {Drop: true},
	"server error": {Error: &ddbmem.Error{Code: "InternalServerError"}},
}

func allOf(f ddbmem.Fault) ddbmem.FaultFunc {
	return func(*ddbmem.Request) ddbmem.Fault { return f }
}

// took is how long a call takes.
func took(call func()) time.Duration {
	start := time.Now()
	call()
	return time.Since(start)
}

// The first call finds out within a request's time; the others are answered from
// the last plan at once.
func TestRecommendInAnOutageIsQuick(t *testing.T) {
	for name, fault := range outages {
		t.Run(name, func(t *testing.T) {
			simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
				recommend := func(ctx context.Context) {
					r, err := k.Recommend(ctx, orgO, appA)
					require.NoError(t, err)
					assert.True(t, r.Stale)
					assert.Equal(t, "premium", r.Label)
				}
				_, err := k.Recommend(t.Context(), orgO, appA)
				require.NoError(t, err)
				pass(10 * time.Second)
				db.SetFaults(allOf(fault))
				assert.LessOrEqual(t, took(func() { recommend(t.Context()) }), 1200*time.Millisecond)
				pass(time.Second)
				for range 20 {
					assert.Zero(t, took(func() { recommend(t.Context()) }))
					pass(7 * time.Second)
				}
				h := k.Health()
				assert.True(t, h.Open)
				require.Error(t, h.Cause)
				assert.True(t, h.NextProbe.After(time.Now().Add(-time.Second)), "one that hangs may be under way")
				assert.True(t, h.Ready, "Recommend goes on")
				db.SetFaults(nil)
				pass(21 * time.Second) // a probe that hangs ends after 10 s, and the next begins 10 s later at most
				assert.Equal(t, Health{Ready: true}, k.Health(), "nothing is said of an outage that is over")
				r, err := k.Recommend(t.Context(), orgO, appA)
				require.NoError(t, err)
				assert.False(t, r.Stale)
			})
		})
	}
}

// A caller's deadline is kept, and Options.Timeout, by the first call already.
func TestDeadlinesAreKeptInAnOutage(t *testing.T) {
	simulated(t, Options{RequestTimeout: time.Minute}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Recommend(t.Context(), orgO, appA)
		require.NoError(t, err)
		pass(10 * time.Second)
		db.SetFaults(allOf(ddbmem.Fault{Before: time.Hour}))
		for _, deadline := range []time.Duration{50 * time.Millisecond, time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			want := min(deadline, 2*time.Second)
			assert.Equal(t, want, took(func() {
				r, err := k.Recommend(ctx, orgO, appA)
				require.NoError(t, err)
				assert.True(t, r.Stale)
			}))
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), deadline)
			assert.Equal(t, want, took(func() {
				_, err := k.Submit(ctx, orgO, appA, call(1))
				require.ErrorIs(t, err, fault.ErrUnavailable)
			}))
			cancel()
		}
		db.SetFaults(nil)
		pass(time.Minute)
	})
}

// Whoever queues up behind a write that hangs is told soon, and so is everybody
// later at once; nothing stays in memory.
func TestSubmitsInAnOutageFailSoon(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Submit(t.Context(), orgO, appA, call(0))
		require.NoError(t, err)
		db.SetFaults(allOf(ddbmem.Fault{Before: time.Hour}))
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				_, err := k.Submit(t.Context(), orgO, appA, call(1+i))
				require.ErrorIs(t, err, fault.ErrUnavailable)
			})
		}
		assert.LessOrEqual(t, took(all.Wait), 2*time.Second)
		pass(time.Second)
		assert.Zero(t, k.Health().Queued)
		assert.LessOrEqual(t, took(func() {
			_, err := k.Submit(t.Context(), orgO, appA, call(999))
			require.ErrorIs(t, err, fault.ErrUnavailable)
			wait, ok := problem.RetryAfter(err)
			assert.True(t, ok, "the next probe")
			assert.LessOrEqual(t, wait, 10*time.Second)
			var u *fault.UnavailableError
			require.ErrorAs(t, err, &u)
			assert.False(t, u.Unconfirmed, "it was not sent")
		}), time.Millisecond)
		for _, most := range []time.Duration{time.Second, time.Millisecond} { // the first finds out that the other table is silent too
			assert.LessOrEqual(t, took(func() {
				_, err := k.Totals(t.Context(), orgO, appA, "")
				require.ErrorIs(t, err, fault.ErrUnavailable)
			}), most, "a read is not sent either")
			pass(time.Second)
		}
		back(db, k)
		_, err = k.Submit(t.Context(), orgO, appA, call(999))
		require.NoError(t, err)
	})
}

// A probe is refused by a table that answers, and so writes nothing.
func TestProbeLeavesNothingBehind(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		client := ddb.Watch(db.Client(), nil, k.clock, time.Second)
		count := func() int32 {
			out, err := db.Client().Scan(t.Context(), &dynamodb.ScanInput{TableName: &k.store.Usage})
			require.NoError(t, err)
			return out.Count
		}
		before := count()
		d := ddb.Classify(probeTable(t.Context(), client, k.store.Usage), t.Context())
		assert.True(t, d.Answered)
		assert.Equal(t, ddb.Refused, d.Verdict)
		assert.Equal(t, before, count())
	})
}

// Callers that give up leave nothing behind, whatever the store does.
func TestAbandonedSubmitsLeaveTheQueue(t *testing.T) {
	simulated(t, Options{RequestTimeout: time.Minute}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Submit(t.Context(), orgO, appA, call(0))
		require.NoError(t, err)
		db.SetFaults(onWrites("TransactWriteItems", ddbmem.Fault{Before: 10 * time.Second}))
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				_, err := k.Submit(ctx, orgO, appA, call(1+i))
				require.ErrorIs(t, err, fault.ErrUnavailable)
			})
			pass(time.Millisecond)
		}
		all.Wait()
		assert.Zero(t, k.Health().Queued)
		db.SetFaults(nil)
		pass(time.Minute)
	})
}
