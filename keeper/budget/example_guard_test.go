package budget_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

func must[T any](v T, err error) T {
	check(err)
	return v
}

// newGuard is a guard on new tables, whose clock stands still: 100 requests and
// 20,000 tokens a minute, and 15 cents a day for the premium model.
func newGuard() (*llm.Guard, *dynalimit.RateLimiter, *budget.Keeper) {
	ctx := context.Background()
	client := ddbmem.New().Client()
	now := func() time.Time { return time.Date(2026, time.January, 23, 12, 0, 0, 0, time.UTC) }
	repo := must(dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{Now: now, Principal: "ops@example.com"}))
	check(repo.CreateTable(ctx))
	limiter := must(dynalimit.New(repo, &dynalimit.Options{
		Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 20_000)},
	}))
	keeper := must(budget.New(client, budget.Tables{}, &budget.Options{Now: now, Principal: "deploy@example.com"}))
	check(keeper.Setup().CreateTables(ctx))
	must(keeper.Setup().PutOrg(ctx, budget.Org{
		ID: exampleOrg, Timezone: "Europe/Berlin",
		Ordering: []string{"premium", "standard"},
		Quotas:   map[string]int64{"premium": 150_000, "standard": 1_000_000},
		Models: map[string]string{
			"premium":  "anthropic.claude-3-5-sonnet-20241022-v2:0",
			"standard": "anthropic.claude-3-5-haiku-20241022-v1:0",
		},
	}))
	must(keeper.Setup().PutApp(ctx, exampleOrg, budget.App{ID: "chat"}))
	return must(llm.New(&llm.Options{Limiter: limiter, Keeper: keeper, Now: now})), limiter, keeper
}

// One call under rate limits and a budget. Both are corrected to what it used.
func ExampleKeeper_ChooseLabel() {
	ctx := context.Background()
	guard, limiter, keeper := newGuard()
	request := llm.Request{
		Entity: "user-123", Resource: "chat", Org: exampleOrg, App: "chat",
		Estimate: llm.Estimate{InputTokens: 2_000, MaxOutputTokens: 4_000},
	}
	err := guard.Do(ctx, request, func(ctx context.Context, call *llm.Call) (llm.Usage, error) {
		fmt.Println("calling", call.Model)
		return llm.Usage{Tokens: prices.Tokens{Input: 1_480, CacheRead: 512, Output: 903}}, nil
	})
	check(err)
	check(guard.Close(ctx)) // the keeper has what was settled
	left := must(limiter.Check(ctx, "user-123", "chat", nil)).Available()
	totals := must(keeper.Totals(ctx, exampleOrg, "chat", ""))
	fmt.Printf("%d requests and %d tokens left, %d µ$ spent\n", left["rpm"], left["tpm"], totals.CostMicros)
	// Output:
	// calling anthropic.claude-3-5-sonnet-20241022-v2:0
	// 99 requests and 17105 tokens left, 18139 µ$ spent
}

// A denial says when to come back, whoever denies.
func ExampleKeeper_ChooseLabel_denied() {
	ctx := context.Background()
	guard, _, _ := newGuard()
	request := llm.Request{
		Entity: "user-123", Resource: "chat", Org: exampleOrg, App: "chat", Label: "premium",
		Estimate: llm.Estimate{InputTokens: 3_000, MaxOutputTokens: 4_000},
	}
	for range 4 {
		call, err := guard.Start(ctx, request)
		if wait, ok := dynalimit.RetryAfter(err); ok {
			fmt.Println("limit:", errors.Is(err, dynalimit.ErrLimitExceeded), "quota:", errors.Is(err, prices.ErrQuotaExceeded), wait)
			break
		}
		check(call.Settle(ctx, llm.Usage{Tokens: prices.Tokens{Input: 2_800, Output: 3_500}}))
		check(guard.Close(ctx)) // the keeper has what was settled
	}
	request.Label = "standard" // whose quota has room
	request.Estimate.MaxOutputTokens = 200
	request.Estimate.InputTokens = 500
	call := must(guard.Start(ctx, request))
	fmt.Println("a cheaper call:", call.Label)
	// Output:
	// limit: false quota: true 11h0m0s
	// a cheaper call: standard
}
