package dynalimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
)

// Two administrators edit one source: one wins, and the other is shown both.
func Example_setConfig() {
	ctx := context.Background()
	_, repo := newLimiter()
	at := admin.Scope{Plan: "pro", Resource: "gpt-4"}
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Plan: "pro", Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))

	anns, bens := must(admin.New(repo).Limits.GetConfig(ctx, at)), must(admin.New(repo).Limits.GetConfig(ctx, at))
	anns.Limits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 200)}
	_, err := admin.New(repo.As("ann@example.com")).Limits.SetConfig(ctx, at, anns)
	check(err)
	bens.Limits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 50)}
	_, err = admin.New(repo.As("ben@example.com")).Limits.SetConfig(ctx, at, bens)

	var conflict *admin.ConflictError[admin.ScopedConfig]
	if errors.As(err, &conflict) {
		fmt.Println(conflict.Stored.Scope, "has", conflict.Stored.Config.Limits[0].Capacity, "now, not", conflict.Yours.Config.Limits[0].Capacity)
	}
	// Output: plan pro on gpt-4 has 200 now, not 50
}

// A project that is blocked is shut out with all its keys that charge it.
func Example_setBlocked() {
	ctx := context.Background()
	limiter, repo := newLimiter()
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
	check(admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "key-1", ParentID: "shop", Cascade: true}))

	check(admin.New(repo).Limits.SetBlocked(ctx, admin.Scope{Entity: "shop"}, true))
	_, err := limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"rpm": 1})
	fmt.Println(errors.Is(err, dynalimit.ErrBlocked))
	check(admin.New(repo).Limits.SetBlocked(ctx, admin.Scope{Entity: "shop"}, false))
	_, err = limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"rpm": 1})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// A limit over all models: each is in the group "all", which has a limit of its own.
func Example_limitOverAllModels() {
	ctx := context.Background()
	limiter, repo := newLimiter()

	perModel, overAll := []dynalimit.Limit{dynalimit.PerMinute("tpm", 8000)}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 10_000)}
	for _, model := range []string{"gpt-4", "gpt-4o"} {
		must(admin.New(repo).Limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Limits: perModel, Groups: []string{"all"}}))
	}
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "all"}, overAll))

	must(limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"tpm": 7000}))
	_, err := limiter.Acquire(ctx, "key-1", "gpt-4o", dynalimit.Amounts{"tpm": 7000})
	var denial *dynalimit.LimitExceededError
	if errors.As(err, &denial) {
		fmt.Println(denial.Primary().Limit.Name, "of", denial.Primary().Resource, "has", denial.Primary().Remaining, "left")
	}
	// Output: tpm of all has 3000 left
}

// A team may spend $50 a day over all models, each of its keys $5, and 10M tokens a minute.
func ExampleDailyMoneyQuota() {
	ctx := context.Background()
	limiter, repo := newLimiter()
	for _, e := range []admin.Entity{{ID: "team-a"}, {ID: "key-1", ParentID: "team-a", Cascade: true}} {
		check(admin.New(repo).Entities.Create(ctx, e))
	}

	for _, model := range []string{"gpt-4.1", "claude-sonnet-4"} {
		must(admin.New(repo).Limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Groups: []string{"all"}}))
	}
	ofKey := []dynalimit.Limit{dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(5), "America/Los_Angeles")}
	ofTeam := []dynalimit.Limit{dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(50), "America/Los_Angeles"), dynalimit.PerMinute("tpm", 10_000_000)}
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "all"}, ofKey))
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Entity: "team-a", Resource: "all"}, ofTeam))

	lease := must(limiter.Acquire(ctx, "key-1", "gpt-4.1", dynalimit.Amounts{"usd": 40_000, "tpm": 3_000})) // the most that it can cost
	check(lease.Settle(ctx, dynalimit.Amounts{"usd": 12_345, "tpm": 1_900}))                                // what it cost
	_, err := limiter.Acquire(ctx, "key-1", "claude-sonnet-4", dynalimit.Amounts{"usd": 4_990_000, "tpm": 3_000})
	fmt.Println(err)
	// Output: dynalimit: usd of key-1 on all exceeded: 4990000 asked, 4987655 left; retry after 23h0m0s
}

// A quota of each day of the calendar, beside a token bucket.
func ExampleDailyQuota() {
	ctx := context.Background()
	limiter, repo := newLimiter()
	must(admin.New(repo).Limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"}, admin.LimitConfig{Groups: []string{"all"}}))

	over := []dynalimit.Limit{dynalimit.DailyQuota("usd", 50_000_000, "America/Los_Angeles"), dynalimit.PerMinute("tpm", 10_000)}
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "all"}, over))

	lease := must(limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"usd": 49_500_000, "tpm": 500}))
	check(lease.Settle(ctx, dynalimit.Amounts{"usd": 49_000_000}))
	_, err := limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"usd": 2_000_000, "tpm": 500})
	var denial *dynalimit.LimitExceededError
	if errors.As(err, &denial) {
		fmt.Println(denial.Primary().Limit.Name, "has", denial.Primary().Remaining, "left; midnight is in", denial.RetryAfter)
	}
	_, err = limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"usd": 60_000_000})
	fmt.Println(err)
	// Output:
	// usd has 1000000 left; midnight is in 23h0m0s
	// dynalimit: usd of key-1 on all: 60000000 asked, the quota is 50000000; ask for less or raise the quota
}

// A limit of calls in flight: a lease holds a slot until it ends.
func ExampleConcurrent() {
	ctx := context.Background()
	limiter, repo := newLimiter()

	slots := dynalimit.Concurrent("inflight", 1, time.Minute).WithLongest(10 * time.Minute)
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "llama-70b"}, []dynalimit.Limit{slots}))

	lease := must(limiter.Acquire(ctx, "team-a", "llama-70b", dynalimit.Amounts{"inflight": 1}))
	defer func() { check(lease.Rollback(ctx)) }() // gives the slot back, also after an error
	_, err := limiter.Acquire(ctx, "team-a", "llama-70b", dynalimit.Amounts{"inflight": 1})
	fmt.Println(err)
	// Output:
	// dynalimit: inflight of team-a on llama-70b exceeded: 1 asked, 1 of 1 in flight; retry after about 1s
}

// Who changed a plan, and what.
func Example_auditEvents() {
	ctx := context.Background()
	_, repo := newLimiter()
	check(admin.New(repo.As("ann@example.com")).Limits.Set(ctx, admin.Scope{Plan: "pro", Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
	check(admin.New(repo.As("ben@example.com")).Limits.SetBlocked(ctx, admin.Scope{Plan: "pro", Resource: "gpt-4"}, true))

	for event, err := range admin.New(repo).AuditEvents(ctx, audit.Query{Target: audit.Plan("pro")}) {
		check(err)
		for _, c := range event.Changes {
			fmt.Println(event.Principal, event.Action, c.Field, string(c.After))
		}
	}
	// Output:
	// ann@example.com limits_set limits [{"burst":100,"capacity":100,"name":"rpm","refill_amount":100,"refill_period_seconds":60}]
	// ben@example.com block_set blocked true
}
