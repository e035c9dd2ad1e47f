package dynalimit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// A busy bucket is debited ahead of its calls, most of which then cost no request.
func ExampleOptions_prefetch() {
	ctx := context.Background()
	db := ddbmem.New()
	repo := must(dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com"}))
	check(repo.CreateTable(ctx))
	limiter := must(dynalimit.New(repo, &dynalimit.Options{
		Limits:            []dynalimit.Limit{dynalimit.PerMinute("rpm", 600_000)},
		PrefetchResources: map[string]time.Duration{"gpt-4": 500 * time.Millisecond}, // exact on all others
	}))

	before := db.Meter()
	for range 2_000 {
		must(limiter.Acquire(ctx, "everybody", "gpt-4", dynalimit.Amounts{"rpm": 1}))
	}
	fmt.Println("a request for every ten calls, or fewer:", db.Meter().Sub(before).Requests() <= 200)
	check(limiter.Close(ctx)) // what was not used is taken off the counter
	// Output: a request for every ten calls, or fewer: true
}
