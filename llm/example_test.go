package llm_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// newGuard is a guard on a new table, whose clock stands still: 100 requests and 20,000 tokens a
// minute.
func newGuard() (*llm.Guard, *dynalimit.RateLimiter) {
	ctx := context.Background()
	client := ddbmem.New().Client()
	now := func() time.Time { return time.Date(2026, time.January, 23, 12, 0, 0, 0, time.UTC) }
	repo := must(dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{Now: now, Principal: "ops@example.com"}))
	check(repo.CreateTable(ctx))
	limiter := must(dynalimit.New(repo, &dynalimit.Options{
		Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 20_000)},
	}))
	return must(llm.New(&llm.Options{Limiter: limiter, Now: now})), limiter
}

// complete stands in for a provider's client.
func complete(context.Context, string) (prices.Tokens, error) {
	return prices.Tokens{Input: 1_480, CacheRead: 512, Output: 903}, nil
}

// One call under rate limits, which are corrected to what it used.
func ExampleGuard_Do() {
	ctx := context.Background()
	guard, limiter := newGuard()
	request := llm.Request{Entity: "user-123", Resource: "gpt-4o", Estimate: llm.Estimate{InputTokens: 2_000, MaxOutputTokens: 4_000}}
	err := guard.Do(ctx, request, func(ctx context.Context, call *llm.Call) (llm.Usage, error) {
		fmt.Println("calling", call.Model)
		tokens, err := complete(ctx, call.Model)
		return llm.Usage{Tokens: tokens}, err
	})
	check(err)
	left := must(limiter.Check(ctx, "user-123", "gpt-4o", nil)).Available()
	fmt.Printf("%d requests and %d tokens left\n", left["rpm"], left["tpm"])
	// Output:
	// calling gpt-4o
	// 99 requests and 17105 tokens left
}

// A streamed reply is metered as it arrives. When the client hangs up, what was
// seen is settled.
func ExampleMeter() {
	guard, _ := newGuard()
	ctx, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	call := must(guard.Start(ctx, llm.Request{
		Entity: "user-123", Resource: "gpt-4o", Estimate: llm.Estimate{InputTokens: 2_000, MaxOutputTokens: 4_000},
	}))
	meter := call.Meter()
	for chunk := range 100 {
		meter.Add(prices.Tokens{Output: 12})
		if chunk == 24 {
			hangUp()
			break
		}
	}
	check(meter.Close(ctx)) // deferred, in a program
	check(guard.Close(context.Background()))
	fmt.Println(call.Lease().Used())
	// Output: map[rpm:1 tpm:2300]
}

// A guard of the limiter alone. Prompts that come from the provider's cache do
// not count here.
func ExampleNew() {
	ctx := context.Background()
	_, limiter := newGuard()
	guard := must(llm.New(&llm.Options{
		Limiter: limiter,
		Limits:  map[string]llm.Measure{"rpm": llm.Requests, "tpm": llm.UncachedTokens},
	}))
	call := must(guard.Start(ctx, llm.Request{
		Entity: "user-123", Resource: "gpt-4", Estimate: llm.Estimate{InputTokens: 6_000, MaxOutputTokens: 500},
	}))
	check(call.Settle(ctx, llm.Usage{Tokens: prices.Tokens{Input: 800, CacheRead: 5_200, Output: 410}}))
	fmt.Println(call.Lease().Used())
	// Output: map[rpm:1 tpm:1210]
}

// A limit on money, in micro-dollars, with a limiter alone: what is held is the most that the
// call can cost, and what it cost stays. A model without a price of exactly its id is refused.
func ExampleCost() {
	ctx := context.Background()
	now := func() time.Time { return time.Date(2026, time.November, 27, 12, 0, 0, 0, time.UTC) }
	repo := must(dynalimit.NewRepository(ddbmem.New().Client(), "limits", &dynalimit.RepositoryOptions{Now: now, Principal: "ops@example.com"}))
	check(repo.CreateTable(ctx))
	limiter := must(dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(50), "America/Los_Angeles")}}))
	list := prices.CatalogList()
	list.Calls["our-deployment"] = must(list.Price("gpt-4.1", now())) // an id of one's own
	guard := must(llm.New(&llm.Options{
		Limiter: limiter, Now: now,
		Limits: map[string]llm.Measure{"usd": llm.Cost(list)},
	}))

	body := []byte(`{"model": "our-deployment", "max_completion_tokens": 1000, "service_tier": "default", "messages": []}`)
	request := llm.Request{
		Entity: "team-a", Resource: "all-models", Model: "our-deployment",
		Estimate: llm.Estimate{InputBytes: int64(len(body)), MaxOutputTokens: 1_000, ServiceTier: "default"},
	}
	call := must(guard.Start(ctx, request))
	fmt.Println("held:", call.Lease().Used()["usd"], "µ$")
	check(call.Settle(ctx, llm.Usage{Tokens: prices.Tokens{Input: 21, Output: 350}, ServiceTier: "default"}))
	fmt.Println("cost:", call.Lease().Used()["usd"], "µ$")

	request.Model = "gpt-4.1-v2"
	_, err := guard.Start(ctx, request)
	var bad *llm.ValidationError
	fmt.Println("a model without a price is refused:", errors.As(err, &bad))

	request.Model, request.Estimate.MaxOutputTokens, request.Estimate.Choices = "gpt-4.1", 100_000, 100
	_, err = guard.Start(ctx, request)
	fmt.Println("dearer than a day:", errors.Is(err, dynalimit.ErrExceedsBurst))
	// Output:
	// held: 10753 µ$
	// cost: 2842 µ$
	// a model without a price is refused: true
	// dearer than a day: true
}
