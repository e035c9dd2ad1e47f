package infra

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

const (
	org, app            = "550e8400-e29b-41d4-a716-446655440000", "app"
	premiumID, cheapID  = "anthropic.claude-3-5-sonnet-20241022-v2:0", "anthropic.claude-3-haiku-20240307-v1:0"
	controlARN, usageOf = "arn:aws:dynamodb:us-east-1:123456789012:table/budget-control", "arn:aws:dynamodb:us-east-1:123456789012:table/budget-usage"
)

// budgetWorld is the tables of budgets in memory, which every client reaches under a policy.
type budgetWorld struct {
	*testing.T
	db *ddbmem.DB
}

func inBudgetWorld(t *testing.T, test func(w budgetWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := budgetWorld{t, ddbmem.New()}
		t.Cleanup(w.db.Close)
		root, _ := w.keeper(everything)
		require.NoError(t, root.Setup().CreateTables(t.Context()))
		require.NoError(t, only(root.Setup().PutOrg(t.Context(), quotas(30_000))))
		require.NoError(t, only(root.Setup().PutApp(t.Context(), org, budget.App{ID: app})))
		test(w)
	})
}

// keeper is one whose requests pass under a policy. It is closed at the end.
func (w budgetWorld) keeper(policy string) (*budget.Keeper, *guarded) {
	w.Helper()
	g := &guarded{next: w.db, policy: readPolicy(w.T, policy), place: here}
	k, err := budget.New(w.db.Client(g.through), budget.Tables{Control: budgets.Control, Usage: budgets.Usage}, &budget.Options{
		Principal: operator, AllowUnknownApps: true, Models: map[string]string{"premium": premiumID, "cheap": cheapID},
	})
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, k.Close(context.WithoutCancel(w.Context()))) })
	return k, g
}

func quotas(premium int64) budget.Org {
	return budget.Org{
		ID: org, Timezone: "Europe/Berlin", Sticky: true,
		Ordering: []string{"premium", "cheap"}, Quotas: map[string]int64{"premium": premium, "cheap": 1_000_000},
	}
}

// budgetPolicy is what the policy of a role says of the tables of budgets.
func budgetPolicy(t *testing.T, id string) string {
	t.Helper()
	d := document{}
	require.NoError(t, json.Unmarshal([]byte(policyOf(t, id, Options{Budget: budgets}, here)), &d))
	d.Statement = slices.DeleteFunc(d.Statement, func(s documentStatement) bool {
		return !slices.Contains(s.Resource, controlARN) && !slices.Contains(s.Resource, usageOf)
	})
	text, err := json.Marshal(d)
	require.NoError(t, err)
	return string(text)
}

// used is a call's usage, the n-th.
func used(n int, label string) prices.Usage {
	return prices.Usage{
		RequestID: "00000000-0000-4000-8000-00000000000" + string(rune('0'+n)), Label: label, Tags: map[string]string{"team": "search"},
		Tokens: prices.Tokens{Input: 1000, Output: 1500},
	}
}

// serve does everything that serving calls can do: for an app that was never configured,
// until its quota is spent, and on the next days.
func (w budgetWorld) serve(k *budget.Keeper) {
	ctx := w.Context()
	require.NoError(w, only(k.Recommend(ctx, org, "new")))
	require.NoError(w, only(k.Estimate(ctx, org, "new", "premium", 100, 100)))
	require.NoError(w, only(k.Submit(ctx, org, "new", used(2, "premium"))))
	require.NoError(w, only(k.SubmitBatch(ctx, org, "new", []prices.Usage{used(3, "premium"), used(4, "premium")})))
	require.NoError(w, only(k.Submit(ctx, org, "new", used(4, "premium")))) // again
	elapse(time.Second)
	require.NoError(w, only(k.RecommendFresh(ctx, org, "new")))
	require.NoError(w, only(k.Sticky(ctx, org, "new")))
	for range 4 {
		elapse(24 * time.Hour)
		require.NoError(w, only(k.RecommendFresh(ctx, org, "new")))
		require.NoError(w, only(k.Submit(ctx, org, "new", used(5, "cheap"))))
	}
	require.NoError(w, k.Replay(ctx))
	require.NoError(w, only(k.Setup().GetApp(ctx, org, app))) // and says where everybody stands
	require.NoError(w, only(k.Totals(ctx, org, "", "")))
}

// see does everything that reading can do.
func (w budgetWorld) see(k *budget.Keeper, client *dynamodb.Client) {
	ctx := w.Context()
	require.NoError(w, only(k.Setup().GetOrg(ctx, org)))
	require.NoError(w, only(k.Setup().GetApp(ctx, org, app)))
	require.NoError(w, all(k.Setup().Apps(ctx, org)))
	require.NoError(w, all(k.Setup().Orgs(ctx)))
	require.NoError(w, all(k.Setup().Audit(ctx, org, time.Time{}, time.Time{})))
	require.NoError(w, all(k.Setup().Adjustments(ctx, org, app)))
	require.NoError(w, all(k.Events(ctx, org, app)))
	require.NoError(w, only(k.Prices().Get(ctx, premiumID)))
	require.NoError(w, only(k.Totals(ctx, org, app, "")))
	require.NoError(w, only(k.TagTotals(ctx, org, app, "", "team")))
	today := time.Now().UTC()
	require.NoError(w, all(k.History(ctx, org, app, today.AddDate(0, 0, -3).Format("20060102"), today.AddDate(0, 0, -1).Format("20060102"))))
	for _, table := range []string{budgets.Control, budgets.Usage} {
		require.NoError(w, only(client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: new(table)})))
		require.NoError(w, only(client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: new(table)})))
	}
}

// administer does everything that administering can do.
func (w budgetWorld) administer(k *budget.Keeper) {
	ctx := w.Context()
	require.NoError(w, only(k.Setup().PutOrg(ctx, quotas(20_000))))
	require.NoError(w, only(k.Setup().PutApp(ctx, org, budget.App{ID: app, Quotas: map[string]int64{"premium": 10_000, "cheap": 10_000}})))
	require.NoError(w, k.Prices().Put(ctx, premiumID, prices.Price{Model: premiumID, Rates: prices.Rates{Input: 1, Output: 2}}))
	require.NoError(w, k.Setup().Override(ctx, org, app, "cheap", time.Now().Add(time.Hour)))
	require.NoError(w, k.Setup().ClearOverride(ctx, org, app))
	require.NoError(w, only(k.Setup().Adjust(ctx, org, app, budget.Adjustment{Label: "premium", DeltaMicros: 100, Reason: "invoice"})))
	elapse(30 * time.Hour)
	require.NoError(w, only(k.Sweep(ctx)))
}

// TestBudgetRolesCanDoWhatTheyMust: under its policy each role's operations on budgets pass,
// and each statement, action, resource and value of the policy is there for one of them.
func TestBudgetRolesCanDoWhatTheyMust(t *testing.T) {
	for id, play := range map[string]func(w budgetWorld, policy string) []iamCall{
		"Acquire": func(w budgetWorld, policy string) []iamCall {
			k, g := w.keeper(policy)
			w.serve(k)
			return g.seen()
		},
		"Read": func(w budgetWorld, policy string) []iamCall {
			k, g := w.keeper(policy)
			w.see(k, w.db.Client(g.through))
			return g.seen()
		},
		"Admin": func(w budgetWorld, policy string) []iamCall {
			k, g := w.keeper(policy)
			w.see(k, w.db.Client(g.through))
			w.administer(k)
			empty := budgetWorld{w.T, ddbmem.New()} // tables to make
			defer empty.db.Close()
			made, g2 := empty.keeper(policy)
			require.NoError(w, made.Setup().CreateTables(w.Context()))
			return slices.Concat(g.seen(), g2.seen())
		},
	} {
		t.Run(id, func(t *testing.T) {
			inBudgetWorld(t, func(w budgetWorld) {
				policy := budgetPolicy(w.T, id)
				calls := play(w, policy)
				for _, c := range calls {
					require.True(t, readPolicy(w.T, policy).allows(c), "%+v", c)
				}
				needed(w.T, policy, calls)
			})
		})
	}
}

// hostileToBudgets are calls that somebody who serves calls could construct, and must not be
// allowed.
func hostileToBudgets() []iamCall {
	call := func(action, table string, keys, names []string) iamCall {
		return constructed(action, table, keys, names...)
	}
	own, audit, bare := []string{"ORG#" + org}, []string{"AUDIT#ORG#" + org}, []string{"PK", "SK", "cfg_version"}
	calls := []iamCall{
		call("UpdateItem", controlARN, own, nil), call("UpdateItem", controlARN, nil, bare), // of which nobody says what they write, or where
		call("UpdateItem", controlARN, []string{"PRICE#" + premiumID}, bare), call("UpdateItem", controlARN, []string{"AUDIT#" + org}, bare),
		call("UpdateItem", controlARN, append(own, audit...), bare),
	}
	for _, name := range []string{
		"quotas", "limits", "ordering", "enforcement", "timezone", "models", "labels", "calendar", "apps_version", "ttl_epoch",
		"until", "label", "rows", "scope", "name", "principal", "details",
	} {
		calls = append(calls, call("UpdateItem", controlARN, own, append(slices.Clone(bare), name)))
	}
	for _, action := range []string{"PutItem", "DeleteItem", "BatchWriteItem", "Scan", "DeleteTable", "UpdateTable", "UpdateTimeToLive", "PartiQLUpdate", "PartiQLInsert"} {
		calls = append(calls, call(action, controlARN, own, bare))
	}
	for _, action := range []string{"PutItem", "DeleteItem", "UpdateItem", "GetItem", "Query", "BatchGetItem"} { // who was charged by hand
		calls = append(calls, call(action, usageOf, audit, nil), call(action, usageOf, append(own, audit...), nil), call(action, usageOf, nil, nil))
	}
	for _, action := range []string{"BatchWriteItem", "Scan", "DeleteTable", "UpdateTable", "UpdateTimeToLive", "PartiQLDelete"} {
		calls = append(calls, call(action, usageOf, own, nil))
	}
	return append(calls, call("PutItem", usageOf+"2", own, nil))
}

// TestSpendingIsRefusedWhatIsHostile: who holds the role that serves calls can write no
// quota, no price and no event of anybody's change; and each condition of the policy is
// there to refuse something.
func TestSpendingIsRefusedWhatIsHostile(t *testing.T) {
	text := budgetPolicy(t, "Acquire")
	policy, all := readPolicy(t, text), readPolicy(t, everything)
	for _, c := range hostileToBudgets() {
		assert.True(t, all.allows(c))
		assert.False(t, policy.allows(c), "%+v", c)
	}
	for what, loose := range loosenings(t, text) {
		assert.True(t, slices.ContainsFunc(hostileToBudgets(), loose.allows), "without %s nothing more is allowed", what)
	}
}

// TestBudgetsAreChangedByAdministratorsAlone: what administrators write is refused to
// readers, and what they write into the control table to who serves calls.
func TestBudgetsAreChangedByAdministratorsAlone(t *testing.T) {
	inBudgetWorld(t, func(w budgetWorld) {
		k, g := w.keeper(everything)
		w.administer(k)
		reader, server := readPolicy(w.T, budgetPolicy(w.T, "Read")), readPolicy(w.T, budgetPolicy(w.T, "Acquire"))
		writes := 0
		for _, c := range g.seen() {
			if slices.Contains([]string{"GetItem", "BatchGetItem", "Query", "Scan", "DescribeTable", "DescribeTimeToLive"}, strings.TrimPrefix(c.Action, actionsPrefix)) {
				continue
			}
			writes++
			assert.False(t, reader.allows(c), "%+v", c)
			if c.Resource == controlARN || strings.HasPrefix(c.Context[leadingKeys][0], "AUDIT#") {
				assert.False(t, server.allows(c), "%+v", c)
			}
		}
		assert.Greater(t, writes, 10)
		for _, id := range []string{"Acquire", "Read"} {
			k, _ := w.keeper(budgetPolicy(w.T, id))
			err := errors.Join(only(k.Setup().PutOrg(w.Context(), quotas(1))), only(k.Setup().PutApp(w.Context(), org, budget.App{ID: app, Quotas: map[string]int64{"premium": 1}})))
			assert.ErrorContains(t, err, "AccessDenied", id)
		}
		for _, id := range []string{"Acquire", "Read", "Admin"} {
			policy := readPolicy(w.T, budgetPolicy(w.T, id))
			for _, table := range []string{controlARN, usageOf} {
				for _, action := range []string{"DeleteTable", "UpdateTable", "PartiQLDelete"} {
					assert.False(t, policy.allows(iamCall{actionsPrefix + action, table, nil}), "%s %s", action, table)
				}
			}
		}
	})
}
