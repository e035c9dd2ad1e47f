package dynalimit_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// What applies to an entity, where it comes from, and what is not in force because of it.
func ExampleRepository_ResolveLimits() {
	ctx := context.Background()
	_, repo := newLimiter()
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 90_000)}))
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Plan: "pro"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 600)}))
	check(admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "key-1", Plan: "pro"}))

	applies := must(repo.ResolveLimits(ctx, "key-1", "gpt-4"))
	fmt.Println(applies.Level, applies.Plan, applies.Limits[0].Name, applies.Limits[0].Capacity)
	fmt.Println("hidden:", applies.Hidden[0].Name, "of level", applies.Hidden[0].Level)
	// Output:
	// plan_default pro rpm 600
	// hidden: tpm of level resource
}

// A limit over all models: each is in the group "all", which has limits of its own.
func ExampleRateLimiter_Acquire_group() {
	ctx := context.Background()
	limiter, repo := newLimiter()
	limits := admin.New(repo).Limits
	check(limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 60_000)}))
	for _, model := range []string{"gpt-4", "gpt-5"} {
		must(limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Groups: []string{"all"}}))
	}
	check(limits.Set(ctx, admin.Scope{Everyone: true, Resource: "all"}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 100_000)}))

	must(limiter.Acquire(ctx, "team-a", "gpt-4", dynalimit.Amounts{"tpm": 60_000}))
	_, err := limiter.Acquire(ctx, "team-a", "gpt-5", dynalimit.Amounts{"tpm": 60_000})
	var exceeded *dynalimit.LimitExceededError
	if errors.As(err, &exceeded) {
		fmt.Println(exceeded.Primary().Resource, exceeded.Primary().Remaining)
	}
	// Output:
	// all 40000
}
