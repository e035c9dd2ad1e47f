package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// Limits are kept per entity and resource. Here entities are API keys and their
// project, and resources are models.
const (
	chat   = "gpt-4"
	images = "image-1"
)

// tour is what the scenes share.
type tour struct {
	*screen
	engine  *engine
	repo    *dynalimit.Repository
	limiter *dynalimit.RateLimiter
	model   *model

	// ana and ben are API keys of the project shop.
	ana, ben, shop string
}

// namespace keeps the tour apart from what else the table holds.
var namespace = &dynalimit.RepositoryOptions{Namespace: "quickstart", Principal: "quickstart"}

// open makes the table and the namespace, if they are not there, and returns the
// repository of the namespace.
func open(ctx context.Context, e *engine) (*dynalimit.Repository, error) {
	whole, err := dynalimit.NewRepository(e.client, e.table, &dynalimit.RepositoryOptions{Principal: namespace.Principal})
	if err != nil {
		return nil, err
	}
	if err := whole.CreateTable(ctx); err != nil {
		return nil, err
	}
	// A namespace is registered once; a misspelt one is refused.
	if err := whole.RegisterNamespace(ctx, namespace.Namespace); err != nil && !errors.Is(err, dynalimit.ErrExists) {
		return nil, err
	}
	return dynalimit.NewRepository(e.client, e.table, namespace)
}

// play shows all scenes.
func play(ctx context.Context, e *engine, s *screen) (err error) {
	// A Repository is one table; a RateLimiter charges its buckets. Both are
	// safe for concurrent use: one of each per process is enough.
	repo, err := open(ctx, e)
	if err != nil {
		return err
	}
	limiter, err := dynalimit.New(repo, nil)
	if err != nil {
		return err
	}
	t := &tour{screen: s, engine: e, repo: repo, limiter: limiter, model: newModel(), ana: "ana", ben: "ben", shop: "shop"}
	if e.db == nil { // a table may be shared: ids of this run's own
		run := "-" + strings.ToLower(rand.Text()[:4])
		t.ana, t.ben, t.shop = t.ana+run, t.ben+run, t.shop+run
	}
	defer func() { err = errors.Join(err, t.leave(ctx)) }()
	if err := t.prepare(ctx); err != nil {
		return err
	}
	before := t.meter()
	for _, scene := range []func(context.Context) error{t.adjusted, t.denied, t.cascaded, t.rolledBack, t.shared} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	if e.db != nil {
		used := t.meter().Sub(before)
		s.title("\nAll of this", fmt.Sprintf("took %d requests to DynamoDB: %g write units and %g read units.",
			used.Requests(), used.WriteUnits(), used.ReadUnits()))
	}
	return nil
}

// prepare sets the limits and says who belongs to whom.
func (t *tour) prepare(ctx context.Context) error {
	// Two limits for everybody: 60 requests and 12,000 tokens a minute.
	everybody := []dynalimit.Limit{dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 12_000)}
	if err := t.repo.SetSystemLimits(ctx, everybody, nil); err != nil {
		return err
	}
	// A limit of one model: 100 images a day, whoever asks.
	if err := t.repo.SetResourceLimits(ctx, images, []dynalimit.Limit{dynalimit.PerDay("images", 100)}); err != nil {
		return err
	}
	// A limit of one project, and two keys that charge it too.
	if err := t.repo.SetEntityLimits(ctx, t.shop, chat, []dynalimit.Limit{dynalimit.PerMinute("tpm", 18_000)}); err != nil {
		return err
	}
	for _, key := range []string{t.ana, t.ben} {
		if err := t.repo.CreateEntity(ctx, dynalimit.Entity{ID: key, ParentID: t.shop, Cascade: true}); err != nil {
			return err
		}
	}
	return nil
}

// adjusted asks for an estimate and corrects it to what the call really used.
func (t *tour) adjusted(ctx context.Context) error {
	t.scene("Admitted by an estimate, adjusted to the truth")
	p := prompt{text: 3_212, maxReply: 600}
	t.say("%s asks for %s tokens: a prompt of about %s, a reply of up to %s",
		t.ana, grouped(p.estimate()), grouped(p.text/charactersPerToken), grouped(p.maxReply))

	lease, err := t.limiter.Acquire(ctx, t.ana, chat, dynalimit.Amounts{"rpm": 1, "tpm": p.estimate()})
	if err != nil {
		return err
	}
	t.good("admitted, one request and %s tokens are taken", grouped(lease.Consumed()["tpm"]))

	reply, err := t.model.call(ctx, p)
	if err != nil {
		return errors.Join(err, lease.Rollback(ctx))
	}
	if err := lease.Adjust(ctx, dynalimit.Amounts{"tpm": reply.total() - p.estimate()}); err != nil {
		return err
	}
	t.good("the model used %s, so %s are given back", grouped(reply.total()), grouped(p.estimate()-reply.total()))
	return t.show(ctx, t.ana)
}

// denied asks for more than is left, and then waits for it.
func (t *tour) denied(ctx context.Context) error {
	t.scene("Denied with an exact wait")
	left, err := t.limiter.Available(ctx, t.ana, chat)
	if err != nil {
		return err
	}
	p := promptOf(left["tpm"]+250, 800)
	ask := dynalimit.Amounts{"rpm": 1, "tpm": p.estimate()}
	t.say("%s asks for %s tokens, a long document", t.ana, grouped(p.estimate()))

	var exceeded *dynalimit.LimitExceededError
	if err := t.refused(ctx, t.ana, ask, &exceeded); err != nil {
		return err
	}
	scarce := exceeded.Primary()
	t.bad("denied: %s of %s has %s left; %s fit in exactly %v", scarce.Limit.Name, scarce.EntityID,
		grouped(scarce.Remaining), grouped(scarce.Requested), exceeded.RetryAfter)
	t.say("nothing was taken; Wait stands in line until then")

	began := time.Now()
	lease, err := t.limiter.Wait(ctx, t.ana, chat, ask)
	if err != nil {
		return err
	}
	t.good("admitted after %v", rounded(time.Since(began)))
	reply, err := t.model.call(ctx, p)
	if err != nil {
		return errors.Join(err, lease.Rollback(ctx))
	}
	// Settle takes what was used and works out the difference itself.
	if err := lease.Settle(ctx, dynalimit.Amounts{"tpm": reply.total()}); err != nil {
		return err
	}
	t.good("settled at the %s it used", grouped(reply.total()))
	return t.show(ctx, t.ana)
}

// cascaded is denied by the project, which its keys have been charging too.
func (t *tour) cascaded(ctx context.Context) error {
	t.scene("Cascaded to the project")
	t.say("%s has used nothing yet, but shares %s with %s", t.ben, t.shop, t.ana)
	p := prompt{text: 4 * 9_000, maxReply: 1_000}
	t.say("%s asks for %s tokens", t.ben, grouped(p.estimate()))

	var exceeded *dynalimit.LimitExceededError
	if err := t.refused(ctx, t.ben, dynalimit.Amounts{"rpm": 1, "tpm": p.estimate()}, &exceeded); err != nil {
		return err
	}
	scarce := exceeded.Primary()
	t.bad("denied by %s: %s left; retry after %v", scarce.EntityID, grouped(scarce.Remaining), exceeded.RetryAfter)
	t.say("all or nothing: %s was not charged either", t.ben)
	return t.show(ctx, t.ben)
}

// rolledBack fails in the middle of a call.
func (t *tour) rolledBack(ctx context.Context) error {
	t.scene("Rolled back on error")
	t.model.overloaded = true
	defer func() { t.model.overloaded = false }()
	p := prompt{text: 3_600, maxReply: 500}

	// Do gives everything back when the function fails or panics.
	err := t.limiter.Do(ctx, t.ben, chat, dynalimit.Amounts{"rpm": 1, "tpm": p.estimate()},
		func(ctx context.Context, lease *dynalimit.Lease) error {
			t.good("%s was admitted with %s tokens; in flight:", t.ben, grouped(lease.Consumed()["tpm"]))
			t.bars(lease.Statuses()[:2])
			_, err := t.model.call(ctx, p)
			return err
		})
	if !errors.Is(err, errOverloaded) {
		return fmt.Errorf("the call should have failed as overloaded: %w", err)
	}
	t.bad("the model failed: %v; all was given back", err)
	return t.show(ctx, t.ben)
}

// shared races processes for one limit. Limiters share nothing but the table,
// so each stands for a process.
func (t *tour) shared(ctx context.Context) error {
	const processes, callers, allowed = 4, 100, 100
	t.scene("Exact among processes")
	t.say("%d limiters × %d callers race for %d images", processes, callers, allowed)

	before := t.meter()
	admitted := make(chan struct{}, processes*callers)
	racers, ctx := errgroup.WithContext(ctx)
	for range processes {
		repo, err := dynalimit.NewRepository(t.engine.client, t.engine.table, namespace)
		if err != nil {
			return err
		}
		limiter, err := dynalimit.New(repo, nil)
		if err != nil {
			return err
		}
		for range callers {
			racers.Go(func() error {
				_, err := limiter.Acquire(ctx, t.shop, images, dynalimit.Amounts{"images": 1})
				switch {
				case errors.Is(err, dynalimit.ErrLimitExceeded):
					return nil
				case err != nil:
					return err
				}
				admitted <- struct{}{}
				return nil
			})
		}
	}
	if err := racers.Wait(); err != nil {
		return err
	}
	t.good("%d admitted, %d denied", len(admitted), processes*callers-len(admitted))
	if t.engine.db != nil {
		t.say("in %d requests: callers of one process share writes", t.meter().Sub(before).Requests())
	}
	return nil
}

// refused acquires what cannot be admitted.
func (t *tour) refused(ctx context.Context, key string, ask dynalimit.Amounts, exceeded **dynalimit.LimitExceededError) error {
	lease, err := t.limiter.Acquire(ctx, key, chat, ask)
	switch {
	case errors.As(err, exceeded):
		return nil
	case err != nil:
		return err
	}
	return errors.Join(errors.New("admitted: the store is so slow that the limits refilled meanwhile"), lease.Rollback(ctx))
}

// show draws what a key and its project have left. Check writes nothing.
func (t *tour) show(ctx context.Context, key string) error {
	report, err := t.limiter.Check(ctx, key, chat, nil)
	if err != nil {
		return err
	}
	t.bars(report.Statuses)
	return nil
}

// meter counts what ddbmem was asked; any other engine does not say.
func (t *tour) meter() ddbmem.Meter {
	if t.engine.db == nil {
		return ddbmem.Meter{}
	}
	return t.engine.db.Meter()
}

// leave closes the limiter and removes the tour's entities, also after Ctrl-C.
func (t *tour) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := t.limiter.Close(ctx)
	for _, entity := range []string{t.ana, t.ben, t.shop} {
		err = errors.Join(err, t.repo.DeleteEntity(ctx, entity))
	}
	return err
}
