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

// budgetCmd is shared by all budget commands. It finds the tables by the flags.
type budgetCmd struct {
	Control      string `help:"Table of configuration and prices." default:"control"`
	Usage        string `help:"Table of counters and records." default:"usage"`
	CreateTables bool   `help:"Create the two tables if they are missing."`

	*globals `kong:"-"`
	readOnly bool // set by commands that only read
}

// AfterApply is the parser's hook. It sets b.globals to a copy of g, so that changes stay in this command, and
// binds b so that the command's Run gets it. It never fails.
func (b *budgetCmd) AfterApply(g *globals, k *kong.Context) error { //nolint:unparam // required by the parser
	of := *g
	b.globals = &of
	k.Bind(b)
	return nil
}

// closingTime bounds the writes of a keeper after its command.
const closingTime = 15 * time.Second

// onKeeper opens a keeper of the two tables that records the caller's identity as author, calls run with it,
// and closes it in any case. It adds advice to the errors of all three.
func (b *budgetCmd) onKeeper(ctx context.Context, out *term.Output, run func(*budget.Keeper) error) error {
	return b.onTables(ctx, out, func(_ *dynamodb.Client, _ string, k *budget.Keeper) error { return run(k) })
}

// showResult calls get with a new keeper and shows its result: as JSON with --json, else by a call of print.
// After an error of get it prints nothing and returns the error with advice.
func showResult[T any](ctx context.Context, b *budgetCmd, out *term.Output, get func(*budget.Keeper) (T, error), print func(T)) error {
	return b.onKeeper(ctx, out, func(k *budget.Keeper) error {
		value, err := get(k)
		if err != nil {
			return err
		}
		return out.Show(value, func() { print(value) })
	})
}

// showExisting is showResult for an organisation or, unless app is "", an app. It checks first that both exist,
// and otherwise returns an error without calling get.
func showExisting[T any](
	ctx context.Context, b *budgetCmd, out *term.Output, org, app string, get func(*budget.Keeper) (T, error), print func(T),
) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) (value T, err error) {
		if err := checkExists(ctx, k, org, app); err != nil {
			return value, err
		}
		return get(k)
	}, print)
}

// onTables opens a keeper, calls run with its client, the author of the changes and the keeper, and closes it
// in any case. With --create-tables it creates the tables first, and with readOnly the client refuses all
// writes. It adds advice to errors.
func (b *budgetCmd) onTables(ctx context.Context, out *term.Output, run func(client *dynamodb.Client, who string, k *budget.Keeper) error) error {
	o := b.connectOptions(ctx)
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
		return b.explainError(ctx, err)
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
	return b.explainError(ctx, errors.Join(err, keeper.Close(closing)))
}

// withoutWrites changes the options o so that the client refuses every request except GetItem, BatchGetItem and
// Query.
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

// explainError adds the next step to an error and names flags in place of the library's fields. A conflict of
// credentials becomes a failure with exitConflict. It leaves nil, interrupts and all other errors to
// globals.explainError.
func (b *budgetCmd) explainError(ctx context.Context, err error) error {
	var missing *types.ResourceNotFoundException
	var bad *fault.ValidationError
	next := ""
	switch {
	case err == nil || ctx.Err() != nil:
		return b.globals.explainError(ctx, err)
	case errors.As(err, &missing):
		return fmt.Errorf("table %q or %q is missing: name yours with --control and --usage, or make them with --create-tables", b.Control, b.Usage)
	case errors.Is(err, budget.ErrNotFound):
		next = "list organisations and apps with 'dynalimit budget orgs list' and 'dynalimit budget apps list ORG'"
	case errors.As(err, &bad):
		err = withDates(err)
		if flag := flagOf(err); flag != "" {
			next = flag + " sets it; "
		}
		next += "correct it and try again; --help has an example"
	case errors.Is(err, credentials.ErrConflict): // the error contains advice
		return &failure{exitConflict, err}
	case errors.Is(err, budget.ErrConflict):
		return afterConflict(err)
	default:
		return b.globals.explainError(ctx, err)
	}
	return fmt.Errorf("%w; %s", err, next)
}

// afterConflict adds the advice to try again to the error of a conflict. It returns the error as it is if the
// organisation or app is being deleted.
func afterConflict(err error) error {
	if beingDeleted(err) {
		return err
	}
	return fmt.Errorf("%w; somebody else changed it at the same time: try again", err)
}

// beingDeleted reports, by the text of a conflict's error, whether the organisation or app is being deleted, so
// that a retry does not help.
func beingDeleted(err error) bool { return strings.Contains(err.Error(), "is being deleted") }
