package dynalimit_test

import (
	"context"
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
