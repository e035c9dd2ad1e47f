package dynalimit_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit"
)

// Two administrators edit one level: one wins, and the other is shown both.
func ExampleRepository_SetConfig() {
	ctx := context.Background()
	_, repo := newLimiter()
	at := dynalimit.Scope{Plan: "pro", Resource: "gpt-4"}
	check(repo.SetLimits(ctx, dynalimit.Scope{Plan: "pro", Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))

	anns, bens := must(repo.GetConfig(ctx, at)), must(repo.GetConfig(ctx, at))
	anns.Limits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 200)}
	_, err := repo.As("ann@example.com").SetConfig(ctx, at, anns)
	check(err)
	bens.Limits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 50)}
	_, err = repo.As("ben@example.com").SetConfig(ctx, at, bens)

	var conflict *dynalimit.ConfigConflictError
	if errors.As(err, &conflict) {
		fmt.Println(conflict.Scope, "has", conflict.Stored.Limits[0].Capacity, "now, not", conflict.Yours.Limits[0].Capacity)
	}
	// Output: plan pro on gpt-4 has 200 now, not 50
}

// A project that is blocked is shut out with all its keys that charge it.
func ExampleRepository_SetBlocked() {
	ctx := context.Background()
	limiter, repo := newLimiter()
	check(repo.SetLimits(ctx, dynalimit.Scope{}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
	check(repo.CreateEntity(ctx, dynalimit.Entity{ID: "key-1", ParentID: "shop", Cascade: true}))

	check(repo.SetBlocked(ctx, dynalimit.Scope{Entity: "shop"}, true))
	_, err := limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"rpm": 1})
	fmt.Println(errors.Is(err, dynalimit.ErrBlocked))
	check(repo.SetBlocked(ctx, dynalimit.Scope{Entity: "shop"}, false))
	_, err = limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"rpm": 1})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// Who changed a plan, and what.
func ExampleRepository_AuditEvents() {
	ctx := context.Background()
	_, repo := newLimiter()
	check(repo.As("ann@example.com").SetLimits(ctx, dynalimit.Scope{Plan: "pro", Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
	check(repo.As("ben@example.com").SetBlocked(ctx, dynalimit.Scope{Plan: "pro", Resource: "gpt-4"}, true))

	for event, err := range repo.AuditEvents(ctx, dynalimit.AuditQuery{Target: dynalimit.AuditPlan("pro")}) {
		check(err)
		for _, c := range event.Changes {
			fmt.Println(event.Principal, event.Action, c.Field, string(c.After))
		}
	}
	// Output:
	// ann@example.com limits_set limits [{"burst":100,"capacity":100,"name":"rpm","refill_amount":100,"refill_period_seconds":60}]
	// ben@example.com block_set blocked true
}
