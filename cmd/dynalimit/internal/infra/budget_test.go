package infra

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestBudgetRoles: what serves calls can spend under its policy, from an app that was never
// configured too, and cannot set a quota.
func TestBudgetRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{t, ddbmem.New()}
		t.Cleanup(w.db.Close)
		m := modelOf(t, Options{Budget: budgets})
		keeper := func(policy string) (*budget.Keeper, *guarded) {
			g := &guarded{next: w.db, policy: readPolicy(t, policy), place: here}
			k, err := budget.New(w.db.Client(g.through), budget.Tables{Control: budgets.Control, Usage: budgets.Usage}, &budget.Options{
				Principal: operator, Models: map[string]string{"premium": "anthropic.claude-3-5-sonnet-20241022-v2:0"},
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, k.Close(context.WithoutCancel(t.Context()))) })
			return k, g
		}
		const org = "550e8400-e29b-41d4-a716-446655440000"
		quotas := budget.Org{ID: org, Timezone: "Europe/Berlin", Enforcement: budget.Hard, Ordering: []string{"premium"}, Quotas: map[string]int64{"premium": 30_000}}
		admin, g := keeper(m.Policy(m.Roles[2], here).JSON())
		require.NoError(t, admin.CreateTables(t.Context()))
		require.NoError(t, only(admin.PutOrg(t.Context(), quotas)))
		require.NoError(t, only(admin.PutApp(t.Context(), org, budget.App{ID: "app"})))
		require.NoError(t, all(admin.Orgs(t.Context())))
		g.permits(t)

		serves, g := keeper(m.Policy(m.Roles[0], here).JSON())
		require.NoError(t, only(serves.Recommend(t.Context(), org, "new")))
		hold, err := serves.Reserve(t.Context(), org, "new", "premium", 1000, time.Minute)
		require.NoError(t, err)
		require.NoError(t, hold.Release(t.Context()))
		require.NoError(t, only(serves.Submit(t.Context(), org, "new", budget.Usage{
			RequestID: "00000000-0000-4000-8000-000000000001", Label: "premium", Tokens: budget.Tokens{Input: 10, Output: 10},
		})))
		g.permits(t)
		require.ErrorContains(t, only(serves.PutOrg(t.Context(), quotas)), "AccessDenied")
		require.ErrorContains(t, only(serves.PutApp(t.Context(), org, budget.App{ID: "new", Quotas: map[string]int64{"premium": 1}})), "AccessDenied")

		reads, _ := keeper(m.Policy(m.Roles[1], here).JSON())
		require.NoError(t, only(reads.GetOrg(t.Context(), org)))
		require.ErrorContains(t, only(reads.PutOrg(t.Context(), quotas)), "AccessDenied")
	})
}
