package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// Limits are kept per entity and resource. Here entities are API keys and their project, and
// resources are models.
const (
	ana, ben, shop = "ana", "ben", "shop"
	chat, images   = "gpt-4", "image-1"
)

var options = &dynalimit.RepositoryOptions{Principal: "quickstart"}

// tour is the shared state of the scenes.
type tour struct {
	out     io.Writer
	client  *dynamodb.Client
	table   string
	db      *ddbmem.DB // nil for another engine
	limiter *dynalimit.RateLimiter
	scenes  int
}

// prepare stores limits for everybody, for images and for the project, and creates the project's
// two keys.
func prepare(ctx context.Context, repo *dynalimit.Repository) error {
	// Everyone: 60 requests and 12,000 tokens a minute.
	everybody := []dynalimit.Limit{dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 12_000)}
	if err := admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true}, everybody); err != nil {
		return err
	}
	// One model: 100 images a day, for every caller.
	ofImages := admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerDay("images", 100)}, Version: admin.AnyVersion, Only: true} // and nothing else
	if _, err := admin.New(repo).Limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: images}, ofImages); err != nil {
		return err
	}
	// One project: 18,000 tokens a minute, and two keys that count there too.
	if err := admin.New(repo).Limits.Add(ctx, admin.Scope{Entity: shop, Resource: chat}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 18_000)}); err != nil {
		return err
	}
	for _, key := range []string{ana, ben} {
		if err := admin.New(repo).Entities.Create(ctx, admin.Entity{ID: key, ParentID: shop, Cascade: true}); err != nil {
			return err
		}
	}
	return nil
}

// settled acquires an estimate, calls the model, settles the lease at the true usage, which gives the unused
// part back, and prints each step.
func (t *tour) settled(ctx context.Context) error {
	t.scene("Admitted by an estimate, settled at the truth")
	lease, err := t.limiter.Acquire(ctx, ana, chat, dynalimit.Amounts{"rpm": 1, "tpm": 1_400})
	if err != nil {
		return err
	}
	t.printLine("✓ ana is admitted with 1400 tokens: a prompt of 800, a reply of up to 600")
	if err := callModel(ctx); err != nil {
		return errors.Join(err, lease.Rollback(ctx)) // all of it is given back
	}
	if err := lease.Settle(ctx, dynalimit.Amounts{"tpm": 1_050}); err != nil {
		return err
	}
	t.printLine("✓ the model used 1050, so 350 are given back")
	return t.show(ctx, ana)
}

// denied requests more than is left and prints the exact wait of the denial. It then stands in line until
// the same request is admitted.
func (t *tour) denied(ctx context.Context) error {
	t.scene("Denied with an exact wait")
	now, err := t.limiter.Check(ctx, ana, chat, nil)
	if err != nil {
		return err
	}
	ask := dynalimit.Amounts{"rpm": 1, "tpm": now.Available()["tpm"] + 250}
	exceeded, err := t.refused(ctx, ana, ask)
	if err != nil {
		return err
	}
	scarce := exceeded.Primary()
	t.printLine("✗ %s of %s has %d left; %d fit in exactly %v", scarce.Limit.Name, scarce.EntityID, scarce.Remaining, scarce.Requested, exceeded.RetryAfter)
	began := time.Now()
	if _, err := t.limiter.Wait(ctx, ana, chat, ask); err != nil { // stands in line until then
		return err
	}
	t.printLine("✓ admitted after %v", time.Since(began).Round(time.Millisecond))
	return t.show(ctx, ana)
}

// parent shows a denial by the project, because both keys have charged it.
func (t *tour) parent(ctx context.Context) error {
	t.scene("Parents count too")
	exceeded, err := t.refused(ctx, ben, dynalimit.Amounts{"rpm": 1, "tpm": 10_000})
	if err != nil {
		return err
	}
	scarce := exceeded.Primary()
	t.printLine("✗ ben asks for %d tokens: %s has %d left; retry after %v", scarce.Requested, scarce.EntityID, scarce.Remaining, exceeded.RetryAfter)
	t.printLine("  all or nothing: ben was not charged either")
	return t.show(ctx, ben)
}

// race has 4 limiters, each for a process, race for one limit of 100, and prints how many calls were admitted
// and denied. The limiters share nothing but the table.
func (t *tour) race(ctx context.Context) error {
	const processes, callers = 4, 100
	t.scene("Exact among processes")
	var admitted atomic.Int64
	racers, ctx := errgroup.WithContext(ctx)
	for range processes {
		repo, err := dynalimit.NewRepository(t.client, t.table, options)
		if err != nil {
			return err
		}
		limiter, err := dynalimit.New(repo, nil)
		if err != nil {
			return err
		}
		for range callers {
			racers.Go(func() error {
				_, err := limiter.Acquire(ctx, shop, images, dynalimit.Amounts{"images": 1})
				switch {
				case errors.Is(err, dynalimit.ErrLimitExceeded):
					return nil
				case err != nil:
					return err
				}
				admitted.Add(1)
				return nil
			})
		}
	}
	if err := racers.Wait(); err != nil {
		return err
	}
	t.printLine("✓ %d processes × %d callers race for 100 images: %d admitted, %d denied",
		processes, callers, admitted.Load(), processes*callers-admitted.Load())
	return nil
}

// outage makes the engine drop requests. It shows a call that the limiter admits within this
// process's share.
func (t *tour) outage(ctx context.Context) error {
	t.scene("DynamoDB does not answer")
	t.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
	defer t.db.SetFaults(nil)
	lease, err := t.limiter.Acquire(ctx, shop, chat, dynalimit.Amounts{"tpm": 1_000}, dynalimit.WithOnUnavailable(dynalimit.Local))
	if err != nil {
		return err
	}
	t.printLine("✓ shop is admitted within this process's share: degraded %t", lease.Degraded())
	if err := lease.Settle(ctx, dynalimit.Amounts{"tpm": 900}); err != nil {
		return err
	}
	t.printLine("✓ settled in memory: the limiter charges 900 once DynamoDB answers again, at Close at the latest")
	return nil
}

// callModel stands in for a provider's client. It waits for 100 ms, or until ctx ends.
func callModel(ctx context.Context) error {
	select {
	case <-time.After(100 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refused requests amounts that do not fit, and returns the denial. If they are admitted, it gives them back
// and returns an error.
func (t *tour) refused(ctx context.Context, key string, ask dynalimit.Amounts) (*dynalimit.LimitExceededError, error) {
	lease, err := t.limiter.Acquire(ctx, key, chat, ask)
	var exceeded *dynalimit.LimitExceededError
	switch {
	case errors.As(err, &exceeded):
		return exceeded, nil
	case err != nil:
		return nil, err
	}
	return nil, errors.Join(errors.New("admitted: the store is so slow that the limits refilled meanwhile"), lease.Rollback(ctx))
}

// show prints the remaining tokens of a key and its project as bars. It takes none.
func (t *tour) show(ctx context.Context, key string) error {
	report, err := t.limiter.Check(ctx, key, chat, nil)
	if err != nil {
		return err
	}
	for _, s := range report.Statuses {
		const width = 24
		full := int(max(0, s.Remaining) * width / s.Limit.Burst)
		t.printLine("  %-4s %s %s%s %d of %d", s.EntityID, s.Limit.Name, strings.Repeat("█", full), strings.Repeat("░", width-full), s.Remaining, s.Limit.Burst)
	}
	return nil
}

// leave closes the limiter and removes the tour's entities, also after Ctrl-C.
func (t *tour) leave(ctx context.Context, repo *dynalimit.Repository) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := t.limiter.Close(ctx)
	for _, entity := range []string{ana, ben, shop} {
		err = errors.Join(err, admin.New(repo).Entities.Delete(ctx, entity))
	}
	return err
}

// scene prints the title and number of the next scene.
func (t *tour) scene(title string) {
	t.scenes++
	if t.scenes > 1 {
		fmt.Fprintln(t.out)
	}
	fmt.Fprintln(t.out, t.scenes, title)
}

// printLine prints an indented line of a scene.
func (t *tour) printLine(format string, args ...any) { fmt.Fprintf(t.out, "  "+format+"\n", args...) }
