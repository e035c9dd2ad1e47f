package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// budgetCmd is what all budget commands share: each finds the tables as the flags say.
type budgetCmd struct {
	Control      string `help:"Table of configuration and prices." default:"control"`
	Usage        string `help:"Table of counters and records." default:"usage"`
	CreateTables bool   `help:"Create the two tables if they are missing."`

	*globals `kong:"-"`
	readOnly bool // of the command that runs
}

// AfterApply is called by the parser.
func (b *budgetCmd) AfterApply(g *globals, k *kong.Context) error { //nolint:unparam // the parser wants an error
	of := *g
	b.globals = &of
	k.Bind(b)
	return nil
}

// closingTime bounds what a keeper writes after its command.
const closingTime = 15 * time.Second

// with runs a command on a keeper of the tables.
func (b *budgetCmd) with(ctx context.Context, out *term.Output, run func(*budget.Keeper) error) error {
	return b.on(ctx, out, func(_ *dynamodb.Client, _ string, k *budget.Keeper) error { return run(k) })
}

// show shows what a keeper of the tables says.
func show[T any](ctx context.Context, b *budgetCmd, out *term.Output, get func(*budget.Keeper) (T, error), print func(T)) error {
	return b.with(ctx, out, func(k *budget.Keeper) error {
		value, err := get(k)
		if err != nil {
			return err
		}
		return out.Show(value, func() { print(value) })
	})
}

// showOf shows what a keeper says of an organisation, or an app of it that is named; they
// have to exist.
func showOf[T any](
	ctx context.Context, b *budgetCmd, out *term.Output, org, app string, get func(*budget.Keeper) (T, error), print func(T),
) error {
	return show(ctx, b, out, func(k *budget.Keeper) (value T, err error) {
		if err := known(ctx, k, org, app); err != nil {
			return value, err
		}
		return get(k)
	}, print)
}

// on runs a command on the tables, in somebody's name.
func (b *budgetCmd) on(ctx context.Context, out *term.Output, run func(client *dynamodb.Client, who string, k *budget.Keeper) error) error {
	o := b.options(ctx)
	defer out.Watch(o.Where())()
	cfg, err := o.Config(ctx)
	if err != nil {
		return err
	}
	client := o.ClientOf(cfg)
	if b.readOnly {
		client = dynamodb.New(client.Options(), withoutWrites)
	}
	keeper, err := budget.New(client, budget.Tables{Control: b.Control, Usage: b.Usage}, &budget.Options{Now: clockOf(ctx)})
	if err != nil {
		return b.explain(ctx, err)
	}
	who, err := o.Identity(ctx, cfg)
	if err == nil && b.CreateTables {
		err = keeper.Setup().CreateTables(ctx)
	}
	if err == nil {
		err = run(client, who, keeper.As(who))
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	return b.explain(ctx, errors.Join(err, keeper.Close(closing)))
}

// withoutWrites lets a client read alone.
func withoutWrites(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("WithoutWrites", func(
			ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
		) (middleware.InitializeOutput, middleware.Metadata, error) {
			switch in.Parameters.(type) {
			case *dynamodb.GetItemInput, *dynamodb.BatchGetItemInput, *dynamodb.QueryInput:
				return next.HandleInitialize(ctx, in)
			}
			return middleware.InitializeOutput{}, middleware.Metadata{}, errors.New("this command writes nothing")
		}), middleware.After)
	})
}

// explain says what to do about an error, or about Ctrl-C.
func (b *budgetCmd) explain(ctx context.Context, err error) error {
	var missing *types.ResourceNotFoundException
	var bad *fault.ValidationError
	next := ""
	switch {
	case err == nil || ctx.Err() != nil:
		return b.globals.explain(ctx, err)
	case errors.As(err, &missing):
		return fmt.Errorf("table %q or %q is missing: name yours with --control and --usage, or make them with --create-tables", b.Control, b.Usage)
	case errors.Is(err, budget.ErrNotFound):
		next = "list what there is with 'dynalimit budget orgs list' and 'dynalimit budget apps list ORG'"
	case errors.As(err, &bad):
		err = inDates(err)
		if flag := flagOf(err); flag != "" {
			next = "it is what " + flag + " says, or does not say; "
		}
		next += "correct it and try again; --help has an example"
	case errors.Is(err, credentials.ErrConflict): // it says what to do
		return &failure{exitConflict, err}
	case errors.Is(err, budget.ErrConflict):
		return afterConflict(err)
	default:
		return b.globals.explain(ctx, err)
	}
	return fmt.Errorf("%w; %s", err, next)
}

// afterConflict says what to do about a conflict, unless it does itself.
func afterConflict(err error) error {
	if beingDeleted(err) {
		return err
	}
	return fmt.Errorf("%w; somebody else changed it at the same time: try again", err)
}

// beingDeleted reports whether a conflict lasts until somebody completes a deletion.
func beingDeleted(err error) bool { return strings.Contains(err.Error(), "is being deleted") }
