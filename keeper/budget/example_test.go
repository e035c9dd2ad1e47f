package budget_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

const (
	exampleOrg = "550e8400-e29b-41d4-a716-446655440000"
	requestID  = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
)

// newKeeper is a keeper on new tables with one organisation, whose clock
// stands still.
func newKeeper() *budget.Keeper {
	now := time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)
	client := ddbmem.New().Client()
	keeper, err := budget.New(client, budget.Tables{Control: "control", Usage: "usage"}, &budget.Options{
		Now: func() time.Time { return now }, Principal: "deploy@example.com",
		Models: map[string]string{
			"premium":  "anthropic.claude-3-5-sonnet-20241022-v2:0",
			"standard": "anthropic.claude-3-5-haiku-20241022-v1:0",
		},
	})
	check(err)
	ctx := context.Background()
	check(keeper.Setup().CreateTables(ctx))
	_, err = keeper.Setup().PutOrg(ctx, budget.Org{
		ID: exampleOrg, Timezone: "America/New_York", Ordering: []string{"premium", "standard"},
		Quotas: map[string]int64{"premium": 100_000, "standard": 50_000},
	})
	check(err)
	_, err = keeper.Setup().PutApp(ctx, exampleOrg, budget.App{ID: "chat"})
	check(err)
	return keeper
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleKeeper_Submit() {
	ctx := context.Background()
	keeper := newKeeper()
	defer func() { check(keeper.Close(ctx)) }()
	usage := prices.Usage{
		RequestID: requestID, Label: "premium",
		Tokens: prices.Tokens{Input: 1500, Output: 800},
		Tags:   map[string]string{"user": "u1"},
	}
	for range 2 { // sent again, it is counted once
		receipt, err := keeper.Submit(ctx, exampleOrg, "chat", usage)
		check(err)
		fmt.Println(receipt.CostMicros, receipt.Duplicate, receipt.SpendMicros, receipt.RecommendedLabel)
	}
	// Output:
	// 16500 false 16500 premium
	// 16500 true 16500 premium
}

func ExampleKeeper_Recommend() {
	ctx := context.Background()
	keeper := newKeeper()
	defer func() { check(keeper.Close(ctx)) }()
	_, err := keeper.Setup().Adjust(ctx, exampleOrg, "chat", budget.Adjustment{Label: "premium", DeltaMicros: 100_000, Reason: "a call that was not metered"})
	check(err)
	rec, err := keeper.Recommend(ctx, exampleOrg, "chat")
	check(err)
	fmt.Println(rec.Label, rec.Mode, rec.Reason)

	_, err = keeper.Setup().Adjust(ctx, exampleOrg, "chat", budget.Adjustment{Label: "standard", DeltaMicros: 50_000, Reason: "another"})
	check(err)
	_, err = keeper.Recommend(ctx, exampleOrg, "chat")
	var exceeded *prices.QuotaExceededError
	if errors.As(err, &exceeded) {
		fmt.Println("nothing left until", exceeded.RetryAt.UTC().Format(time.RFC3339))
	}
	// Output:
	// standard NORMAL QUOTA_EXCEEDED_premium
	// nothing left until 2026-01-24T05:00:00Z
}

func ExampleKeeper_History() {
	ctx := context.Background()
	keeper := newKeeper()
	defer func() { check(keeper.Close(ctx)) }()
	_, err := keeper.Setup().Adjust(ctx, exampleOrg, "chat", budget.Adjustment{Label: "premium", Day: "20260122", DeltaMicros: 12_345, Reason: "imported"})
	check(err)
	for day, err := range keeper.History(ctx, exampleOrg, "chat", "20260121", "20260123") {
		check(err)
		fmt.Println(day.Day, day.CostMicros)
	}
	// Output:
	// 20260121 0
	// 20260122 12345
	// 20260123 0
}

// Every change by an administrator has an event, written with it.
func ExampleSetup_Audit() {
	ctx := context.Background()
	keeper := newKeeper()
	defer func() { check(keeper.Close(ctx)) }()
	_, err := keeper.As("ann@example.com").Setup().PutApp(ctx, exampleOrg, budget.App{ID: "batch", Quotas: map[string]int64{"premium": 20_000, "standard": 10_000}})
	check(err)
	_, err = keeper.As("bob@example.com").Setup().PutApp(ctx, exampleOrg, budget.App{ID: "batch", Quotas: map[string]int64{"premium": 20_000, "standard": 90_000}})
	check(err)
	for event, err := range keeper.Setup().Audit(ctx, exampleOrg, time.Time{}, time.Time{}) {
		check(err)
		if event.Resource != "batch" {
			continue
		}
		fmt.Println(event.Time.Format(time.DateTime), event.Principal, event.Action)
		for _, c := range event.Changes {
			fmt.Printf("  %s: %s -> %s\n", c.Field, c.Before, c.After)
		}
	}
	// Output:
	// 2026-01-23 15:30:45 ann@example.com app_created
	//   quotas:  -> {"premium":20000,"standard":10000}
	// 2026-01-23 15:30:45 bob@example.com app_updated
	//   quotas: {"premium":20000,"standard":10000} -> {"premium":20000,"standard":90000}
}
