package aggregator_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// A Closer closes an hour once it is over, and says what is missing.
func ExampleCloser_CloseDue() {
	ctx, now := context.Background(), time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	db := ddbmem.New(ddbmem.WithClock(clock))
	repo, _ := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Now: clock})
	_ = repo.CreateTable(ctx) // with a stream
	limiter, _ := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 10_000)}})
	closer, _ := aggregator.NewCloser(db.Client(), "limits", &aggregator.CloserOptions{Now: clock})
	_, _ = closer.CloseDue(ctx) // everything before

	lease, _ := limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"tpm": 2_500})
	_ = lease.Settle(ctx, nil)
	processor, _ := aggregator.New(db.Client(), "limits", nil)
	_, _ = processor.Process(ctx, readStream(ctx, db))

	now = now.Add(2 * time.Hour)
	done, err := closer.CloseDue(ctx)
	fmt.Println("closed", done.Hours, "hours with", done.Snapshots, "snapshot,", len(done.Gaps), "gaps", err)
	// Output:
	// closed 2 hours with 1 snapshot, 0 gaps <nil>
}
