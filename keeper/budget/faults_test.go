package budget

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

func TestFaultsOfOneSubmit(t *testing.T) {
	late := func() ddbmem.Fault {
		c := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(c) })
		return ddbmem.Fault{Late: c}
	}
	for name, fault := range map[string]func() ddbmem.Fault{
		"answer lost":       func() ddbmem.Fault { return ddbmem.Fault{Lose: true} },
		"request lost":      func() ddbmem.Fault { return ddbmem.Fault{Drop: true} },
		"late":              late,
		"throttled":         func() ddbmem.Fault { return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}} },
		"server error":      func() ddbmem.Fault { return ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError"}} },
		"in progress":       func() ddbmem.Fault { return ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionInProgressException"}} },
		"no answer in time": func() ddbmem.Fault { return ddbmem.Fault{After: time.Minute} },
		"conflict": func() ddbmem.Fault {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{}, {Code: "TransactionConflict"}}}}
		},
		"throttled item": func() ddbmem.Fault {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{}, {Code: "ThrottlingError"}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, Options{Timeout: 10 * time.Second}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
				db.SetFaults(onWrite(2, fault()))
				r, err := k.Submit(t.Context(), orgO, appA, call(1))
				require.NoError(t, err)
				assert.False(t, r.Duplicate, "its own retry is no duplicate")
				assert.Equal(t, int64(16_500), r.CostMicros)
				pass(2 * time.Second)
				got, err := k.Totals(t.Context(), orgO, appA, "")
				require.NoError(t, err)
				assert.Equal(t, int64(1), got.Labels[0].Requests)
			})
		})
	}
}

// forgetful sends every transaction under another token, as if ten minutes had
// passed between tries.
type forgetful struct{ Client }

func (f forgetful) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	copied := *in
	token := store.NewID()
	copied.ClientRequestToken = &token
	return f.Client.TransactWriteItems(ctx, &copied, o...)
}

// TestOwnItemsAreRecognised: without the token's help a landed first try is
// known by the writer's mark, and is no duplicate.
func TestOwnItemsAreRecognised(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, _ *Keeper) {
		k, err := New(forgetful{db.Client()}, Tables{}, &Options{AllowUnknownApps: true, Principal: tester, Models: fixtureModels})
		require.NoError(t, err)
		ctx := t.Context()
		lose := func() { db.SetFaults(onWrite(1, ddbmem.Fault{Lose: true})) }
		lose()
		r, err := k.Submit(ctx, orgO, appA, call(1))
		require.NoError(t, err)
		assert.False(t, r.Duplicate)
		lose()
		require.NoError(t, adjust(ctx, k, orgO, appA, Adjustment{Label: "premium", DeltaMicros: 7, Reason: "test"}))
		back(db, k)
		got, err := k.Totals(ctx, orgO, appA, "")
		require.NoError(t, err)
		assert.Equal(t, int64(16_507), got.CostMicros)
		require.NoError(t, k.Close(ctx))
	})
}

// TestStoreDown: each operation by its policy; bad requests are never
// "unavailable".
func TestStoreDown(t *testing.T) {
	down := func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} }
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		ctx := t.Context()
		_, err := k.Submit(ctx, orgO, appA, call(1))
		require.NoError(t, err)
		db.SetFaults(down)
		pass(time.Minute)
		rec, err := k.Recommend(ctx, orgO, appA)
		require.NoError(t, err, "the last plan known")
		assert.True(t, rec.Stale)
		assert.Equal(t, "premium", rec.Label)
		var u *fault.UnavailableError
		_, err = k.Recommend(ctx, orgO, appB)
		require.ErrorAs(t, err, &u, "nothing is known of this app")
		_, err = k.Submit(ctx, orgO, appA, call(2))
		require.ErrorAs(t, err, &u)

		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ResourceNotFoundException"}}
		})
		<-k.tables.usage.Closed()
		_, err = k.Recommend(ctx, orgO, appA)
		require.Error(t, err)
		assert.False(t, isUnavailable(err), "a missing table is not an outage")
	})
	simulated(t, Options{OnUnavailable: OnUnavailable{Recommend: Refuse}}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		ctx := t.Context()
		_, err := k.Recommend(ctx, orgO, appA)
		require.NoError(t, err)
		db.SetFaults(down)
		pass(time.Minute)
		var u *fault.UnavailableError
		_, err = k.Recommend(ctx, orgO, appA)
		require.ErrorAs(t, err, &u)
		assert.False(t, k.Health().Ready)
		back(db, k)
		_, err = k.Recommend(ctx, orgO, appA)
		require.NoError(t, err)
	})
}

// TestControlTableDown: records are counted with the last configuration known,
// for five minutes.
func TestControlTableDown(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		ctx := t.Context()
		_, err := k.Submit(ctx, orgO, appA, call(1))
		require.NoError(t, err)
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: r.Table == "control"} })
		pass(4 * time.Minute)
		_, err = k.Submit(ctx, orgO, appA, call(2))
		require.NoError(t, err)
		rec, err := k.Recommend(ctx, orgO, appA)
		require.NoError(t, err)
		assert.False(t, rec.Stale, "what is spent is known")
		assert.Equal(t, int64(33_000), rec.Labels[0].SpendMicros)
		assert.True(t, k.tables.control.State().Open)
		assert.False(t, k.tables.usage.State().Open, "the other table answers")
		pass(2 * time.Minute)
		_, err = k.Submit(ctx, orgO, appA, call(3))
		require.True(t, isUnavailable(err), "%v", err)
	})
}

// TestCancelledCallers: a record that was sent is written all the same, one that
// was not is not, and its caller knows.
func TestCancelledCallers(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Submit(t.Context(), orgO, appA, call(1))
		require.NoError(t, err)
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Before: 100 * time.Millisecond, After: 100 * time.Millisecond}
		})
		go func() {
			_, err := k.Submit(t.Context(), orgO, appA, call(3))
			assert.NoError(t, err)
		}()
		synctest.Wait() // it is on its way
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		_, err = k.Submit(ctx, orgO, appA, call(2))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var u *fault.UnavailableError
		require.ErrorAs(t, err, &u)
		assert.False(t, u.Unconfirmed, "it was still in the queue")
		synctest.Wait()
		assert.Zero(t, k.Health().Queued, "and nobody waits for it")
		pass(5 * time.Second)
		ctx, cancel = context.WithTimeout(t.Context(), 150*time.Millisecond)
		_, err = k.Submit(ctx, orgO, appA, call(2))
		cancel()
		require.ErrorAs(t, err, &u)
		assert.True(t, u.Unconfirmed, "it was sent")
		pass(5 * time.Second)
		got, err := k.Totals(t.Context(), orgO, appA, "")
		require.NoError(t, err)
		assert.Equal(t, int64(49_500), got.CostMicros)
	})
}

// TestCloseDrains: what was accepted is written before Close returns.
func TestCloseDrains(t *testing.T) {
	simulated(t, Options{Metering: MeteringBatch, Linger: time.Hour}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		answered := make(chan error, 10)
		for i := range 10 {
			go func() {
				_, err := k.Submit(t.Context(), orgO, appA, call(i))
				answered <- err
			}()
		}
		synctest.Wait()
		require.NoError(t, k.Close(t.Context()))
		for range 10 {
			err := <-answered
			require.True(t, err == nil || errors.Is(err, ErrClosed), "%v", err)
		}
		_, err := k.Submit(t.Context(), orgO, appA, call(11))
		require.ErrorIs(t, err, ErrClosed)
		_, err = k.Recommend(t.Context(), orgO, appA)
		require.ErrorIs(t, err, ErrClosed)
		other, err := New(db.Client(), Tables{}, &Options{AllowUnknownApps: true, Principal: tester, Models: fixtureModels})
		require.NoError(t, err)
		got, err := other.Totals(t.Context(), orgO, appA, "")
		require.NoError(t, err)
		assert.Equal(t, int64(10), got.Labels[0].Requests)
		require.NoError(t, other.Close(t.Context()))
	})
}

// A change that is answered late was made, and is not told as perhaps made.
func TestChangeThatIsAnsweredLateWasMade(t *testing.T) {
	simulated(t, Options{RequestTimeout: time.Second}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation != "TransactWriteItems" {
				return ddbmem.Fault{}
			}
			return ddbmem.Fault{After: 5 * time.Second}
		})
		_, err := k.Setup().PutOrg(t.Context(), fixtureOrg())
		require.NoError(t, err)
		db.SetFaults(nil)
	})
}
