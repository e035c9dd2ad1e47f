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

// globals are the flags of all commands: where the table is, and how to answer.
type globals struct {
	Endpoint  string `help:"URL of a DynamoDB engine. Default: AWS, as the environment says." placeholder:"URL" group:"where"`
	Local     bool   `help:"Use the engine that 'dynalimit local' serves, http://127.0.0.1:8000." group:"where"`
	Region    string `help:"AWS region. Default: as the environment says." group:"where"`
	Profile   string `help:"Profile of the AWS configuration. Default: as the environment says." group:"where"`
	Table     string `help:"Table of limits and buckets." default:"limits" env:"DYNALIMIT_TABLE" group:"where"`
	Namespace string `help:"Tenant of the table. Default: none." env:"DYNALIMIT_NAMESPACE" placeholder:"NAME" group:"where"`
	As        string `help:"Who makes the changes, as their events are to tell. Default: who AWS says you are; with an engine, your user and this machine." env:"DYNALIMIT_PRINCIPAL" placeholder:"NAME" aliases:"principal" group:"how"`
	JSON      bool   `name:"json" help:"Print JSON, for programs." group:"how"`
}

// changes are the flags of commands that change something.
type changes struct {
	DryRun bool `help:"Show what would be changed, and change nothing."`
}

// asks are the flags of commands that ask before they go on.
type asks struct {
	Yes bool `help:"Do not ask."`
}

// destroys are the flags of commands that destroy something.
type destroys struct {
	changes
	asks
}

// confirm asks before something is destroyed, unless that was answered before.
func (d asks) confirm(ctx context.Context, out *term.Output, question, word string) error {
	if d.Yes {
		return nil
	}
	return out.Confirm(ctx, question, word)
}

// clockKey is where a test puts its clock into a context.
type clockKey struct{}

func clockOf(ctx context.Context) func() time.Time {
	if now, ok := ctx.Value(clockKey{}).(func() time.Time); ok {
		return now
	}
	return nil
}

// timeoutKey is where a test puts the time limit of a request into a context.
type timeoutKey struct{}

// options are the flags as the room that connects takes them.
func (g *globals) options(ctx context.Context) connect.Options {
	timeout, _ := ctx.Value(timeoutKey{}).(time.Duration)
	return connect.Options{
		Endpoint: g.Endpoint, Local: g.Local, Region: g.Region, Profile: g.Profile,
		Table: g.Table, Namespace: g.Namespace, Principal: g.As, Now: clockOf(ctx), Timeout: timeout,
	}
}

// reading runs a command that changes nothing.
func (g *globals) reading(ctx context.Context, out *term.Output, run func(*dynalimit.Repository) error) error {
	return g.on(ctx, out, connect.Options.Repository, func(repo *dynalimit.Repository) error {
		if err := g.registered(ctx, repo); err != nil {
			return err
		}
		return run(repo)
	})
}

// registered fails for a namespace that nobody registered, in which nothing is found.
func (g *globals) registered(ctx context.Context, repo *dynalimit.Repository) error {
	if g.Namespace == "" {
		return nil
	}
	n, err := admin.New(repo).Namespaces.Get(ctx, g.Namespace)
	if err == nil && n.State == "" {
		err = &fault.NamespaceError{Namespace: g.Namespace, Reason: "check the name, or register it", Fix: fault.RegisterNamespace}
	}
	return err
}

// changing runs a command that changes something, in somebody's name.
func (g *globals) changing(ctx context.Context, out *term.Output, run func(*dynalimit.Repository) error) error {
	return g.on(ctx, out, connect.Options.Changing, run)
}

func (g *globals) on(
	ctx context.Context, out *term.Output,
	open func(connect.Options, context.Context) (*dynalimit.Repository, error), run func(*dynalimit.Repository) error,
) error {
	o := g.options(ctx)
	defer out.Watch(o.Where())()
	repo, err := open(o, ctx)
	if err == nil {
		err = run(repo)
	}
	return g.explain(ctx, err)
}

// now is the time of a command.
func now(ctx context.Context) time.Time {
	if clock := clockOf(ctx); clock != nil {
		return clock()
	}
	return time.Now()
}
