package dynalimit_test

import (
	"context"
	"fmt"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/prices"
)

const (
	org = "550e8400-e29b-41d4-a716-446655440000"
	app = "app-batch"
)

// newKeeper keeps the budget of an organisation that prefers its premium model.
func newKeeper() *budget.Keeper {
	ctx := context.Background()
	keeper := must(budget.New(ddbmem.New().Client(), budget.Tables{}, &budget.Options{
		Now: standingStill.Now, Principal: "deploy@example.com",
		Models: map[string]string{
			"premium":  "anthropic.claude-3-5-sonnet-20241022-v2:0",
			"standard": "anthropic.claude-3-5-haiku-20241022-v1:0",
		},
	}))
	check(keeper.Setup().CreateTables(ctx))
	must(keeper.Setup().PutOrg(ctx, budget.Org{
		ID: org, Name: "sample", Timezone: "Europe/Berlin",
		Ordering: []string{"premium", "standard"},
		Quotas:   map[string]int64{"premium": 30_000, "standard": 100_000}, // µ$ a day: 3 and 10 cents
	}))
	must(keeper.Setup().PutApp(ctx, org, budget.App{ID: app}))
	return keeper
}

func uuid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// An application starts on its preferred model and is told to use the next one
// when the day's quota is spent. A record that is sent twice counts once.
func Example_budget() {
	ctx := context.Background()
	keeper, now := newKeeper(), standingStill.Now()
	spend := func(call int) {
		use := must(keeper.Recommend(ctx, org, app)) // the label and model for now; warm, no request
		receipt := must(keeper.Submit(ctx, org, app, prices.Usage{
			RequestID: uuid(call), Label: use.Label, Model: use.Model, Status: "OK", Time: now,
			Tokens: prices.Tokens{Input: 1_500, Output: 800},
		}))
		fmt.Printf("%s: %d µ$, duplicate %t, next: %s\n", use.Label, receipt.CostMicros, receipt.Duplicate, receipt.RecommendedLabel)
	}
	spend(1)
	spend(1)
	spend(2)
	spend(3)
	// Output:
	// premium: 16500 µ$, duplicate false, next: premium
	// premium: 16500 µ$, duplicate true, next: premium
	// premium: 16500 µ$, duplicate false, next: standard
	// standard: 4400 µ$, duplicate false, next: standard
}
