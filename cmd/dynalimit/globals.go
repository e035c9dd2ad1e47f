package main

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/connect"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/fault"
)

// globals is the flags of all commands: the table, and the form of the output.
type globals struct {
	Endpoint  string `help:"URL of a DynamoDB engine. Default: AWS, as the environment says." placeholder:"URL" group:"where"`
	Local     bool   `help:"Use the engine that 'dynalimit local' serves, http://127.0.0.1:8000." group:"where"`
	Region    string `help:"AWS region. Default: as the environment says." group:"where"`
	Profile   string `help:"Profile of the AWS configuration. Default: as the environment says." group:"where"`
	Table     string `help:"Table of limits and buckets." default:"limits" env:"DYNALIMIT_TABLE" group:"where"`
	Namespace string `help:"Tenant of the table. Default: none." env:"DYNALIMIT_NAMESPACE" placeholder:"NAME" group:"where"`
	As        string `help:"The author of the changes in audit events. Default: your AWS identity; with an engine, your user and this machine." env:"DYNALIMIT_PRINCIPAL" placeholder:"NAME" aliases:"principal" group:"how"`
	JSON      bool   `name:"json" help:"Print JSON, for programs." group:"how"`
}

// changes is the flags of commands that change something.
type changes struct {
	DryRun bool `help:"Show the changes, and make none."`
}

// asks is the flags of commands that ask for confirmation.
type asks struct {
	Yes bool `help:"Do not ask."`
}

// destroys is the flags of commands that destroy something.
type destroys struct {
	changes
	asks
}

// confirm prints the question and waits until the user types word, unless --yes is given. It fails if the user
// declines, or if no terminal can ask.
func (d asks) confirm(ctx context.Context, out *term.Output, question, word string) error {
	if d.Yes {
		return nil
	}
	return out.Confirm(ctx, question, word)
}

// clockKey is the context key of a test's clock.
type clockKey struct{}

// clockOf returns the clock that a test put into ctx, or nil outside tests.
func clockOf(ctx context.Context) func() time.Time {
	if now, ok := ctx.Value(clockKey{}).(func() time.Time); ok {
		return now
	}
	return nil
}

// timeoutKey is the context key of a test's request timeout.
type timeoutKey struct{}

// connectOptions returns the flags as options for package connect, with the clock and the request timeout that
// a test put into ctx. It sends nothing.
func (g *globals) connectOptions(ctx context.Context) connect.Options {
	timeout, _ := ctx.Value(timeoutKey{}).(time.Duration)
	return connect.Options{
		Endpoint: g.Endpoint, Local: g.Local, Region: g.Region, Profile: g.Profile,
		Table: g.Table, Namespace: g.Namespace, Principal: g.As, Now: clockOf(ctx), Timeout: timeout,
	}
}

// readTable calls run with a repository of the table, for commands that only read, and adds advice to the
// error. It does not call run if the namespace of the flags is not registered.
func (g *globals) readTable(ctx context.Context, out *term.Output, run func(*dynalimit.Repository) error) error {
	return g.onTable(ctx, out, connect.Options.Repository, func(repo *dynalimit.Repository) error {
		if err := g.checkRegistered(ctx, repo); err != nil {
			return err
		}
		return run(repo)
	})
}

// checkRegistered reads the namespace of the flags and returns a *fault.NamespaceError if it is not registered.
// Without --namespace it returns nil and reads nothing.
func (g *globals) checkRegistered(ctx context.Context, repo *dynalimit.Repository) error {
	if g.Namespace == "" {
		return nil
	}
	n, err := admin.New(repo).Namespaces.Get(ctx, g.Namespace)
	if err == nil && n.State == "" {
		err = &fault.NamespaceError{Namespace: g.Namespace, Reason: "check the name, or register it", Fix: fault.RegisterNamespace}
	}
	return err
}

// changeTable calls run with a repository of the table. The author of its changes is --as or the caller's AWS
// identity. It adds advice to the error and, unlike readTable, does not check the namespace.
func (g *globals) changeTable(ctx context.Context, out *term.Output, run func(*dynalimit.Repository) error) error {
	return g.onTable(ctx, out, connect.Options.ForChanges, run)
}

// onTable calls run with the repository that open returns, and adds advice to the error of either. It prints a
// note on out if DynamoDB takes long.
func (g *globals) onTable(
	ctx context.Context, out *term.Output,
	open func(connect.Options, context.Context) (*dynalimit.Repository, error), run func(*dynalimit.Repository) error,
) error {
	o := g.connectOptions(ctx)
	defer out.Watch(o.Where())()
	repo, err := open(o, ctx)
	if err == nil {
		err = run(repo)
	}
	return g.explainError(ctx, err)
}

// now returns the current time, from the clock in ctx if a test set one.
func now(ctx context.Context) time.Time {
	if clock := clockOf(ctx); clock != nil {
		return clock()
	}
	return time.Now()
}
