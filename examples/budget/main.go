// Command budget shows a day and a half in the life of an application that
// keeps within its budget: it starts on the premium model, is switched to the
// standard one when the day's quota is spent, and is back on premium after
// midnight. Everything runs in process, on a simulated clock.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/ddbmem"
)

const (
	org = "550e8400-e29b-41d4-a716-446655440000"
	app = "chat"

	every = 4 * time.Minute // between two calls
	hours = 30
)

func main() {
	if err := run(context.Background(), os.Stdout, coloured(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
}

// clock is the simulated time.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// simulation is the application and what it has seen so far.
type simulation struct {
	keeper *budget.Keeper
	clock  *clock
	label  string
	calls  int
	chart  chart
}

func run(ctx context.Context, out io.Writer, colour bool) (err error) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		return err
	}
	c := &clock{time.Date(2026, 1, 23, 6, 0, 0, 0, zone)}
	db := ddbmem.New(ddbmem.WithClock(c.now))
	defer db.Close()
	s := &simulation{clock: c, chart: chart{out: out, colour: colour, quota: 4_000_000}}
	s.keeper, err = budget.New(db.Client(), budget.Tables{}, &budget.Options{Now: c.now, Principal: "examples/budget", OnEvent: s.chart.event})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := s.keeper.Close(ctx); err == nil {
			err = closeErr
		}
	}()
	if err := s.setUp(ctx); err != nil {
		return err
	}
	s.chart.title("premium may spend $4.00 a day, New York time")
	for range hours {
		if err := s.hour(ctx); err != nil {
			return err
		}
	}
	return s.summary(ctx)
}

func (s *simulation) setUp(ctx context.Context) error {
	if err := s.keeper.CreateTables(ctx); err != nil {
		return err
	}
	_, err := s.keeper.PutOrg(ctx, budget.Org{
		ID: org, Timezone: "America/New_York",
		Ordering: []string{"premium", "standard"},
		Quotas:   map[string]int64{"premium": 4_000_000, "standard": 2_000_000}, // µ$ a day
		Models: map[string]string{
			"premium":  "us.anthropic.claude-sonnet-4-6",
			"standard": "us.anthropic.claude-haiku-4-5-20251001-v1:0",
		},
	})
	if err != nil {
		return err
	}
	if _, err := s.keeper.PutApp(ctx, org, budget.App{ID: app}); err != nil {
		return err
	}
	rec, err := s.keeper.Recommend(ctx, org, app)
	s.label = rec.Label
	return err
}

// hour makes an hour's calls and draws what they cost.
func (s *simulation) hour(ctx context.Context) error {
	from := s.clock.at
	for s.clock.at.Sub(from) < time.Hour {
		receipt, err := s.call(ctx)
		if err != nil {
			return err
		}
		s.label = receipt.RecommendedLabel // of the label to use next
		s.clock.at = s.clock.at.Add(every)
	}
	totals, err := s.keeper.Totals(ctx, org, app, from.Format("20060102"))
	if err != nil {
		return err
	}
	s.chart.hour(from, s.label, totals)
	return nil
}

// call is one model call: 2,400 tokens in, 700 out, metered when it is over.
func (s *simulation) call(ctx context.Context) (budget.Receipt, error) {
	rec, err := s.keeper.Recommend(ctx, org, app)
	if err != nil {
		return budget.Receipt{}, err
	}
	s.calls++
	return s.keeper.Submit(ctx, org, app, budget.Usage{
		RequestID: fmt.Sprintf("00000000-0000-4000-8000-%012x", s.calls),
		Label:     rec.Label, Model: rec.Model,
		Tokens: budget.Tokens{Input: 2400, Output: 700}, Time: s.clock.at,
	})
}

func (s *simulation) summary(ctx context.Context) error {
	for day, err := range s.keeper.History(ctx, org, app, "20260123", "20260124") {
		if err != nil {
			return err
		}
		s.chart.day(day)
	}
	return nil
}
