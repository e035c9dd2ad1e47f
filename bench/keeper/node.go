package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

const (
	principal = "bench"
	label     = "premium"
	model     = "anthropic.claude-3-5-sonnet-20241022-v2:0"
	ample     = 1_000_000_000_000 // µ$ a day: enough that no label is used up
)

var tables = budget.Tables{Control: "control", Usage: "usage"}

// node is one process of the keeper, with the same handler as `dynalimit keeper serve` and a discarded access
// log.
type node struct {
	keeper  *budget.Keeper
	repo    *dynalimit.Repository
	limiter *dynalimit.RateLimiter
	store   *credentials.Store
	server  *budgethttp.Server
	sweeps  sync.WaitGroup
	end     context.CancelFunc
}

// openNode opens a keeper, a limiter and an HTTP server on a client. After an error it closes the
// opened parts.
func openNode(client *dynamodb.Client, keys *credentials.KeySet, s settings) (_ *node, err error) {
	n := &node{end: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	n.keeper, err = budget.New(client, tables, &budget.Options{
		Principal: principal, Logger: log, Linger: s.Linger, Metering: s.Metering,
		OnEvent: func(context.Context, budget.Event) {},
	})
	if err != nil {
		return n, err
	}
	if n.limiter, n.repo, err = subject.Open(client, nil); err != nil {
		return n, err
	}
	if n.store, err = credentials.New(client, tables.Control, &credentials.Options{Keys: keys, Principal: principal, Logger: log}); err != nil {
		return n, err
	}
	n.server, err = budgethttp.New(n.keeper, n.store, &budgethttp.Options{Limiter: n.limiter, Logger: log})
	return n, err
}

// startSweeps calls the keeper's Sweep every so often in a goroutine, until the node is closed; 0 means never.
func (n *node) startSweeps(every time.Duration) {
	if every == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.end = cancel
	n.sweeps.Go(func() {
		for program.Pause(ctx, every) {
			_, _ = n.keeper.Sweep(ctx) // again at the next
		}
	})
}

// close ends the sweeps, then closes the keeper and the limiter. It gives their last writes 10 s.
func (n *node) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	n.end()
	n.sweeps.Wait()
	var err error
	if n.keeper != nil {
		err = n.keeper.Close(ctx)
	}
	if n.limiter != nil {
		err = errors.Join(err, n.limiter.Close(ctx))
	}
	return err
}

// target is an app with its login credentials.
type target struct {
	org, app, id, secret string
	token                string // of its login
}

// path returns the API path of the app.
func (t target) path() string { return "/api/v1/orgs/" + t.org + "/apps/" + t.app }

// prepare creates the tables, an organisation and s.Apps apps. It returns the apps with their
// credentials.
func prepare(ctx context.Context, client *dynamodb.Client, keys *credentials.KeySet, s settings) (_ []target, err error) {
	n, err := openNode(client, keys, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	if err := errors.Join(n.keeper.Setup().CreateTables(ctx), n.repo.CreateTable(ctx)); err != nil {
		return nil, err
	}
	const org = "550e8400-e29b-41d4-a716-446655440000"
	_, err = n.keeper.Setup().PutOrg(ctx, budget.Org{
		ID: org, Name: "load", Timezone: "UTC", Scope: budget.ScopeApp, Shards: s.Shards,
		Ordering: []string{label, "standard", "economy"},
		Quotas:   map[string]int64{label: ample, "standard": ample, "economy": ample},
		Models: map[string]string{
			label: model, "standard": "anthropic.claude-3-5-haiku-20241022-v1:0", "economy": "anthropic.claude-3-haiku-20240307-v1:0",
		},
	})
	if err != nil {
		return nil, err
	}
	targets := make([]target, s.Apps)
	for i := range targets {
		app := fmt.Sprintf("app-%d", i)
		if _, err := n.keeper.Setup().PutApp(ctx, org, budget.App{ID: app}); err != nil {
			return nil, err
		}
		issued, err := n.store.Create(ctx, org, app)
		if err != nil {
			return nil, err
		}
		got, err := n.store.Retrieve(ctx, org, app, issued.Token)
		if err != nil {
			return nil, err
		}
		targets[i] = target{org: org, app: app, id: got.ClientID, secret: got.Secret.Reveal()}
	}
	return targets, nil
}
