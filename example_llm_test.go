package dynalimit_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

// A model call under both: the budget chooses the label, the limiter takes requests and
// tokens, and one record settles both.
func Example_llm() {
	ctx := context.Background()
	limiter, _ := newLimiter(dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 12_000))
	keeper, now := newKeeper(), standingStill.Now
	callModel := func(_ context.Context, model string) (prices.Tokens, error) {
		return prices.Tokens{Input: 1_480, Output: 310}, nil
	}

	guard := must(llm.New(&llm.Options{Limiter: limiter, Keeper: keeper, Now: now}))
	request := llm.Request{
		Entity: "user-123", Resource: "gpt-4", Org: org, App: app,
		Estimate: llm.Estimate{InputTokens: 1_500, MaxOutputTokens: 800},
	}
	err := guard.Do(ctx, request, func(ctx context.Context, call *llm.Call) (llm.Usage, error) {
		tokens, err := callModel(ctx, call.Model)
		return llm.Usage{Tokens: tokens}, err // nothing used: all is given back
	})
	check(guard.Close(ctx)) // the keeper has what was settled
	spent := func() int64 { return must(keeper.Recommend(ctx, org, app)).Labels[0].SpendMicros }
	fmt.Println(err, must(limiter.Check(ctx, "user-123", "gpt-4", nil)).Available(), spent())

	request.Estimate.InputTokens = 11_000 // more than is left
	err = guard.Do(ctx, request, func(context.Context, *llm.Call) (llm.Usage, error) {
		return llm.Usage{}, errors.New("never called")
	})
	fmt.Println(errors.Is(err, dynalimit.ErrLimitExceeded), spent())
	// Output:
	// <nil> map[rpm:59 tpm:10210] 9090
	// true 9090
}
