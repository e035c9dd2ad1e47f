package budget

import (
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

const doubt = "may have been applied"

// firstError drains a list until it fails.
func firstError[T any](list iter.Seq2[T, error]) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestReadsLeaveNoDoubt: a read that is not answered changed nothing, and its
// error does not say otherwise.
func TestReadsLeaveNoDoubt(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		ctx := t.Context()
		r, err := k.Submit(ctx, orgO, appA, call(1))
		require.NoError(t, err)
		readsFail := func(f *ddbmem.Request) ddbmem.Fault {
			switch f.Operation {
			case "GetItem", "BatchGetItem", "Query", "Scan":
				return ddbmem.Fault{Drop: true}
			}
			return ddbmem.Fault{}
		}
		unseen := call(2)
		unseen.Model = standardModel // refused, unless it was counted before
		for name, read := range map[string]func() error{
			"Orgs":         func() error { return firstError(k.Setup().Orgs(ctx)) },
			"StoredModels": func() error { return firstError(k.Prices().Models(ctx)) },
			"Apps":         func() error { return firstError(k.Setup().Apps(ctx, orgO)) },
			"GetOrg":       func() error { _, err := k.Setup().GetOrg(ctx, orgO); return err },
			"GetApp":       func() error { _, err := k.Setup().GetApp(ctx, orgO, appA); return err },
			"Totals":       func() error { _, err := k.Totals(ctx, orgO, appA, ""); return err },
			"History":      func() error { return firstError(k.History(ctx, orgO, appA, r.Day, r.Day)) },
			"TagTotals":    func() error { _, err := k.TagTotals(ctx, orgO, appA, "", "user"); return err },
			"Sticky":       func() error { _, err := k.Sticky(ctx, orgO, appA); return err },
			"Events":       func() error { return firstError(k.Events(ctx, orgO, appA)) },
			"Adjustments":  func() error { return firstError(k.Setup().Adjustments(ctx, orgO, appA)) },
			"Recommend":    func() error { _, err := k.Recommend(ctx, orgO, appB); return err },
			"Sweep":        func() error { _, err := k.Sweep(ctx, orgO); return err },
			"Submit":       func() error { _, err := k.Submit(ctx, orgO, appA, unseen); return err },
			"configuration": func() error {
				return adjust(ctx, k, orgO, appB, Adjustment{Label: "premium", DeltaMicros: 1, Reason: "test"})
			},
			"PutOrg": func() error { _, err := k.Setup().PutOrg(ctx, fixtureOrg()); return err },
		} {
			back(db, k)
			k.tenants.evictAll()
			_, err := k.tenants.get(ctx, orgO, appA)
			require.NoError(t, err)
			db.SetFaults(readsFail)
			err = read()
			var u *fault.UnavailableError
			require.ErrorAs(t, err, &u, name)
			assert.False(t, u.Unconfirmed, name)
			assert.NotContains(t, err.Error(), doubt, name)
		}
		back(db, k)
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Unprocessed: 100, Drop: r.Operation != "BatchGetItem"}
		})
		k.tenants.evictAll()
		_, err = k.Recommend(ctx, orgO, appA)
		require.ErrorIs(t, err, ddb.ErrUnprocessed)
		assert.NotContains(t, err.Error(), doubt)
	})
}

// TestUnansweredWritesLeaveDoubt: also when what failed last was a read.
func TestUnansweredWritesLeaveDoubt(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		ctx := t.Context()
		_, err := k.Submit(ctx, orgO, appA, call(1))
		require.NoError(t, err)
		for name, write := range map[string]func() error{
			"Adjust": func() error {
				return adjust(ctx, k, orgO, appA, Adjustment{Label: "premium", DeltaMicros: 1, Reason: "test"})
			},
			"Override": func() error { return k.Setup().Override(ctx, orgO, appA, "premium", time.Now().Add(time.Hour)) },
			"PutOrg":   func() error { _, err := k.Setup().PutOrg(ctx, fixtureOrg()); return err },
		} {
			back(db, k)
			_, err := k.tenants.get(ctx, orgO, appA)
			require.NoError(t, err)
			var written atomic.Bool // the Keeper works in the background too
			db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				switch r.Operation {
				case "TransactWriteItems", "PutItem", "UpdateItem":
					written.Store(true)
				}
				return ddbmem.Fault{Drop: written.Load()}
			})
			err = write()
			var u *fault.UnavailableError
			require.ErrorAs(t, err, &u, name)
			assert.True(t, u.Unconfirmed, name)
			assert.Contains(t, err.Error(), doubt, name)
		}
	})
}
