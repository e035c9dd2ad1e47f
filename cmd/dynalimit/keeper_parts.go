package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/keeper/serve"
)

// openParts returns the parts of the service: the client, the keys, the repository and, if prices are
// refreshed, the source of the price list. Call closing after the service has ended. After an error it has
// closed them itself, and closing may be nil.
func (c keeperServeCmd) openParts(ctx context.Context, g *globals, config keeper.Config, logger *slog.Logger) (parts keeper.Parts, closing func(), err error) {
	parts = keeper.Parts{Tables: budget.Tables{Control: c.Control, Usage: c.Usage}, Logger: logger, Now: clockOf(ctx)}
	if g.Local {
		closing, err = c.openInMemory(ctx, g, config, &parts)
	} else {
		closing, err = c.openDynamoDB(ctx, g, config, &parts)
	}
	if err != nil {
		return parts, closing, err
	}
	parts.Repository, err = dynalimit.NewRepository(parts.Client, g.Table, &dynalimit.RepositoryOptions{
		Namespace: g.Namespace, Principal: parts.Principal, Now: parts.Now, Logger: logger,
	})
	if from := config.Prices.Refresh.From; err == nil && from != "" {
		parts.Prices = priceListFlags{Source: from}.listSource()
	}
	if err != nil {
		closing()
	}
	return parts, closing, err
}

// openInMemory sets in parts the client of a new engine in this process, the principal "keeper", and keys:
// those given, else new ones. It fails with --endpoint. The returned function closes the engine and ends the
// watch of the keys.
func (c keeperServeCmd) openInMemory(ctx context.Context, g *globals, config keeper.Config, parts *keeper.Parts) (func(), error) {
	if g.Endpoint != "" {
		return nil, badInput("--local keeps the tables in memory: leave --endpoint out")
	}
	unwatch, err := func() {}, error(nil)
	if config.Keyset != "" || os.Getenv(keysetVariable) != "" {
		unwatch, err = c.watchKeys(ctx, g, config, parts)
	} else {
		parts.Keys, err = credentials.NewKeySet(nil, now(ctx))
	}
	if err != nil {
		return nil, err
	}
	db := ddbmem.New(ddbmem.WithExpiry())
	parts.Client, parts.Principal = db.Client(), "keeper"
	return func() { unwatch(); db.Close() }, nil
}

// openDynamoDB sets the client, the principal and the keys in parts. It fails if the caller's identity cannot
// be found or no keys are given. The returned function ends the watch of the keys.
func (c keeperServeCmd) openDynamoDB(ctx context.Context, g *globals, config keeper.Config, parts *keeper.Parts) (func(), error) {
	o := g.connectOptions(ctx)
	cfg, err := o.Config(ctx)
	if err != nil {
		return nil, err
	}
	parts.Client = o.ClientOf(cfg)
	if parts.Principal, err = o.Identity(ctx, cfg); err != nil {
		return nil, err
	}
	return c.watchKeys(ctx, g, config, parts)
}

// watchKeys sets parts.Keys: reloaded regularly from the file or AWS secret of --keyset, or without it fixed
// from the environment. It logs a warning if everybody may read the file, and fails without valid keys. The
// returned function ends the reloading.
func (c keeperServeCmd) watchKeys(ctx context.Context, g *globals, config keeper.Config, parts *keeper.Parts) (func(), error) {
	named := keysetFlag{config.Keyset}
	keys, err := named.loadKeys(ctx, g) // its errors contain advice
	if err != nil {
		return nil, err
	}
	named.warnOfMode(ctx, parts.Logger)
	if config.Keyset == "" {
		parts.Keys = keys
		return func() {}, nil
	}
	load, every, err := named.keyLoader(ctx, g)
	if err != nil {
		return nil, err
	}
	watched, err := credentials.WatchKeys(ctx, load, &credentials.WatchOptions{Interval: every, Logger: parts.Logger})
	if err != nil {
		return nil, badInput("%s: %w", term.Plain(config.Keyset), err)
	}
	parts.Keys = watched
	return watched.Close, nil
}

// createTables creates the missing tables with --create-tables or --local, else it only checks them. With
// --local it also creates an organisation with an app to try. It returns a function that prints the addresses
// and, with --local, commands to try.
func (c keeperServeCmd) createTables(ctx context.Context, g *globals, s *keeper.Service) (func(*term.Output), error) {
	if c.CreateTables || g.Local {
		if err := s.CreateTables(ctx); err != nil {
			return nil, err
		}
	}
	if !g.Local {
		return func(out *term.Output) { printAddresses(out, s) }, s.Look(ctx)
	}
	demo, err := s.Demo(ctx)
	return func(out *term.Output) {
		printAddresses(out, s)
		fmt.Fprintln(out, out.Dim("Tables in memory of this process, not those of 'dynalimit local'. Ctrl-C stops it and drops them."))
		fmt.Fprintf(out, "\n%s\n", out.Bold("Log in, ask for a model, say what a call cost, read the day, read the configuration"))
		for _, line := range demo.Lines(s.URL()) {
			fmt.Fprintln(out, line)
		}
	}, err
}

// printAddresses prints the URLs of the API's documentation and, if served, of the metrics.
func printAddresses(out *term.Output, s *keeper.Service) {
	fmt.Fprintf(out, "%s %s\n", out.Bold("Keeper:"), out.Cyan(s.URL()+"/docs"))
	if at := s.MetricsURL(); at != "" {
		fmt.Fprintf(out, "%s %s\n", out.Bold("Metrics:"), out.Cyan(at+"/metrics"))
	}
}

// explainStart returns the error of a failed start with advice, such as flags for a missing table. It joins
// closing, the error of the shutdown, which may be nil.
func (c keeperServeCmd) explainStart(ctx context.Context, g *globals, err, closing error) error {
	var missing *types.ResourceNotFoundException
	if errors.As(err, &missing) && !errors.Is(err, fault.ErrTable) {
		err = fmt.Errorf("table %q or %q is missing: name yours with --control and --usage, or make them with --create-tables", c.Control, c.Usage)
	}
	return errors.Join(g.explainError(ctx, err), closing)
}
