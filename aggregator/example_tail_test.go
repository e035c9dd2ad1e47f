package aggregator_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// watch tells operators of what a Tail missed, and of what it tries again.
var watch = aggregator.TailObserver{
	Processed: func(e aggregator.RecordsProcessed) {
		for _, gap := range e.Result.Gaps {
			slog.Warn("consumption without a record", "entity", gap.Entity, "resource", gap.Resource, "limit", gap.Limit, "millitokens", gap.Missing)
		}
	},
	Retrying: func(e aggregator.TailRetry) {
		slog.Warn("trying again", "what", e.Op, "shard", e.Shard.ID, "try", e.Try, "err", e.Err)
	},
}

// A Tail has the records of a table's stream added to usage, until its context ends.
func ExampleTail_Run() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // signal.NotifyContext in a service
	defer cancel()
	db := ddbmem.New()
	defer db.Close()
	client, streams := db.Client(), db.StreamsClient()
	repo, _ := dynalimit.NewRepository(client, "limits", nil)
	_ = repo.CreateTable(ctx) // with a stream
	limiter, _ := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 10_000)}})
	lease, _ := limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"tpm": 3_000})
	_ = lease.Settle(ctx, dynalimit.Amounts{"tpm": 2_500})

	counted := func(n int) {
		fmt.Println("counted", n)
		cancel()
	}
	if err := follow(ctx, streams, client, counted); err != nil {
		fmt.Println(err)
	}
	// Output:
	// counted 2
}

func follow(ctx context.Context, streams aggregator.StreamsAPI, client aggregator.TailDynamoDB, counted func(int)) error {
	processor, err := aggregator.New(client, "limits", nil)
	if err != nil {
		return err
	}
	process := func(ctx context.Context, records []aggregator.Record) (aggregator.Result, error) {
		result, err := processor.Process(ctx, records) // NewTail takes it as it is, too
		if result.Counted > 0 {
			counted(result.Counted)
		}
		return result, err
	}
	tail, err := aggregator.NewTail(streams, client, "limits", process, &aggregator.TailOptions{
		Holder:    "aggregator-1", // such as the name of the host
		FoldEvery: -1,             // at once; by default records are gathered for a minute
		Observer:  watch,
	})
	if err != nil {
		return err
	}
	return tail.Run(ctx) // nil once ctx has ended, and what was read is counted
}
