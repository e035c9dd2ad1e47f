package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/llm"
)

const (
	org, app = "550e8400-e29b-41d4-a716-446655440000", "chat"
	user     = "user-123"

	prompt   = 1_200 // tokens
	maxReply = 3_000
)

// tour is what the scenes share.
type tour struct {
	*screen
	limiter *dynalimit.RateLimiter
	keeper  *budget.Keeper
	guard   *llm.Guard
}

func run(ctx context.Context, s *screen) (err error) {
	db := ddbmem.New()
	defer db.Close()
	t := &tour{screen: s}
	if err := t.setUp(ctx, db); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, t.guard.Close(ctx), t.limiter.Close(ctx), t.keeper.Close(ctx))
	}()
	for _, scene := range []func(context.Context) error{t.streamed, t.hungUp, t.denied, t.spent} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}

// setUp makes the tables, the limits and the budget.
func (t *tour) setUp(ctx context.Context, db *ddbmem.DB) error {
	client := db.Client() // production: dynamodb.NewFromConfig(cfg)
	repo, err := dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com"})
	if err != nil {
		return err
	}
	if err := repo.CreateTable(ctx); err != nil {
		return err
	}
	limits := []dynalimit.Limit{dynalimit.PerHour("rpm", 60), dynalimit.PerHour("tpm", 12_000)}
	if t.limiter, err = dynalimit.New(repo, &dynalimit.Options{Limits: limits}); err != nil {
		return err
	}
	if t.keeper, err = budget.New(client, budget.Tables{}, &budget.Options{Principal: "examples/llm"}); err != nil {
		return err
	}
	if err := t.keeper.CreateTables(ctx); err != nil {
		return err
	}
	_, err = t.keeper.PutOrg(ctx, budget.Org{
		ID: org, Timezone: "UTC",
		Ordering: []string{"premium", "standard"},
		Quotas:   map[string]int64{"premium": 36_000, "standard": 20_000}, // µ$ a day
		Models: map[string]string{
			"premium":  "us.anthropic.claude-sonnet-4-6",
			"standard": "us.anthropic.claude-haiku-4-5-20251001-v1:0",
		},
	})
	if err != nil {
		return err
	}
	if _, err = t.keeper.PutApp(ctx, org, budget.App{ID: app}); err != nil {
		return err
	}
	t.guard, err = llm.New(&llm.Options{Limiter: t.limiter, Keeper: t.keeper})
	return err
}

// request is a call of the app for a user.
func request(user string, input, output int64) llm.Request {
	return llm.Request{
		Entity: user, Resource: "chat", Org: org, App: app,
		Estimate: llm.Estimate{InputTokens: input, MaxOutputTokens: output},
	}
}

// answer streams one reply to the screen. The guard settles what the meter saw,
// however the stream ends.
func (t *tour) answer(ctx context.Context, r llm.Request, seen func(words int)) error {
	return t.guard.Do(ctx, r, func(ctx context.Context, call *llm.Call) (llm.Usage, error) {
		t.say("%s admitted on %s (%s); in flight:", t.paint(green, "✓"), call.Label, call.Model)
		if err := t.gauges(ctx, r.Entity); err != nil {
			return llm.Usage{}, err
		}
		fmt.Fprint(t, "    ")
		defer fmt.Fprintln(t)
		meter, words := call.Meter(), 0
		for chunk, err := range stream(ctx, prompt) {
			if err != nil {
				return llm.Usage{}, err // the meter knows what was used
			}
			fmt.Fprint(t, t.paint(dim, "%s", chunk.text))
			meter.Add(budget.Tokens{Output: chunk.tokens})
			if chunk.usage != nil {
				meter.Set(*chunk.usage)
			}
			words++
			seen(words)
		}
		return llm.Usage{Tokens: meter.Seen()}, nil
	})
}

func ignore(int) {}

// streamed is a call from the estimate to the settlement.
func (t *tour) streamed(ctx context.Context) error {
	t.scene("1  A streamed reply: admitted by its most, settled at the truth")
	if err := t.answer(ctx, request(user, prompt, maxReply), ignore); err != nil {
		return err
	}
	t.say("settled at what it used: the rest is free again")
	return t.gauges(ctx, user)
}

// hungUp cuts the stream.
func (t *tour) hungUp(ctx context.Context) error {
	t.scene("2  The client hangs up in the middle")
	client, hangUp := context.WithCancel(ctx)
	defer hangUp()
	err := t.answer(client, request(user, prompt, maxReply), func(words int) {
		if words == 12 {
			hangUp()
		}
	})
	if !errors.Is(err, context.Canceled) || ctx.Err() != nil {
		return fmt.Errorf("the stream should have been cut: %w", err)
	}
	t.say("%s %v; the prompt and 12 words were used, and are paid for", t.paint(red, "✗"), err)
	return t.gauges(ctx, user)
}

// denied asks for more than the rate allows.
func (t *tour) denied(ctx context.Context) error {
	t.scene("3  The limits deny")
	_, err := t.guard.Start(ctx, request(user, 8_000, 1_000))
	wait, ok := llm.RetryAfter(err)
	if !ok || !errors.Is(err, dynalimit.ErrLimitExceeded) {
		return fmt.Errorf("the limits should have denied: %w", err)
	}
	t.say("%s %v", t.paint(red, "✗"), err)
	t.say("that is exact: the same call fits in %v", wait)
	return t.gauges(ctx, user)
}

// spent finds the preferred label without room.
func (t *tour) spent(ctx context.Context) error {
	t.scene("4  The premium budget has no room: the next label takes over")
	other := "user-456" // with limits of its own, and the same budget
	if err := t.answer(ctx, request(other, prompt, maxReply), ignore); err != nil {
		return err
	}
	return t.gauges(ctx, other)
}

// gauges shows what is taken of the user's limits and of the app's budget.
func (t *tour) gauges(ctx context.Context, user string) error {
	if err := t.guard.Close(ctx); err != nil { // the keeper has what was settled
		return err
	}
	report, err := t.limiter.Check(ctx, user, "chat", nil)
	if err != nil {
		return err
	}
	for _, s := range report.Statuses {
		t.gauge(s.Limit.Name, s.Limit.Burst-s.Remaining, s.Limit.Burst, count)
	}
	totals, err := t.keeper.Totals(ctx, org, app, "")
	if err != nil {
		return err
	}
	for _, l := range totals.Labels {
		t.gauge(l.Label, l.CostMicros, l.Quota, dollars)
	}
	return nil
}
