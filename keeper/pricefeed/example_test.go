package pricefeed_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/pricefeed"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// bucket is a source of one's own.
type bucket struct{ objects map[string]string }

func (b *bucket) Open(_ context.Context, tag string) (io.ReadCloser, string, error) {
	body := b.objects["prices.json"]
	if now := fmt.Sprint(len(body)); now != tag {
		return io.NopCloser(strings.NewReader(body)), now, nil
	}
	return nil, tag, pricefeed.ErrNotModified
}

func ExampleRefresher() {
	ctx := context.Background()
	keeper, err := budget.New(ddbmem.New().Client(), budget.Tables{}, &budget.Options{
		Now:       func() time.Time { return time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC) },
		Principal: "prices@example.com",
	})
	check(err)
	defer func() { check(keeper.Close(ctx)) }()
	check(keeper.Setup().CreateTables(ctx))

	source := &bucket{map[string]string{"prices.json": `[
		{"model_id": "gpt-4o", "input_usd_micros_per_1m": 2500000, "output_usd_micros_per_1m": 10000000},
		{"model_id": "gpt-4o-mini", "input_usd_micros_per_1m": 180000, "output_usd_micros_per_1m": 600000},
		{"model_id": "gpt-5", "input_usd_micros_per_1m": 12500000, "output_usd_micros_per_1m": 10000000}
	]`}}
	refresher, err := pricefeed.New(keeper.Prices(), source, &pricefeed.Options{Every: 6 * time.Hour})
	check(err)
	report, err := refresher.Refresh(ctx) // Run does it again and again, until its context ends
	check(err)
	for _, c := range report.Accepted {
		fmt.Printf("%s: %d becomes %d from %s on\n", c.Model, c.Before.Input, c.After.Input, c.EffectiveFrom.Format(time.TimeOnly))
	}
	for _, c := range report.Held {
		fmt.Printf("%s: %d stays, %d is %s\n", c.Model, c.Before.Input, c.After.Input, c.Reason)
	}
	fmt.Println("unchanged:", report.Unchanged)
	// Output:
	// gpt-4o-mini: 150000 becomes 180000 from 15:30:45 on
	// gpt-5: 1250000 stays, 12500000 is dearer
	// unchanged: [gpt-4o]
}
