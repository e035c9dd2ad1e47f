package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/connect"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/fault"
)

// Exit codes, documented in docs/operations.md.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2   // wrong arguments or invalid input
	exitNo          = 3   // the answer is no
	exitConflict    = 4   // another process changed it or holds it: try again
	exitInterrupted = 130 // interrupted by Ctrl-C
)

// failure is an error with an exit code.
type failure struct {
	code int
	err  error
}

// Error returns the text of the wrapped error, without the exit code.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the error without its exit code.
func (f *failure) Unwrap() error { return f.err }

// errNo ends a command whose printed answer is no.
var errNo = &failure{exitNo, errors.New("the answer is no")}

// badInput returns a failure with exitUsage about invalid input, with the text and wrapping of fmt.Errorf.
func badInput(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...)}
}

// codeOf returns the exit code of a command's error: its own if it is a failure, else exitInterrupted after ctx
// has ended. A conflict or a lock is exitConflict, invalid input or a question without a terminal exitUsage,
// and the rest exitFailed.
func codeOf(ctx context.Context, err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	_, invalid := errors.AsType[*dynalimit.ValidationError](err)
	_, nobody := errors.AsType[*term.NobodyError](err)
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, admin.ErrConflict), errors.Is(err, fault.ErrLocked), errors.Is(err, fault.ErrLost):
		return exitConflict
	case invalid, nobody:
		return exitUsage
	}
	return exitFailed
}

// explainError returns err with the next step added. After an interrupt it returns an error that says whether
// anything was changed. It returns nil, a declined confirmation and an error with an exit code as they are.
func (g *globals) explainError(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, term.ErrDeclined) {
		return err
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	if ctx.Err() != nil && !connect.Wrote(ctx) {
		return &failure{exitInterrupted, errors.New("interrupted: nothing was changed")}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w; the finished part stays, run the command again to continue", err)
	}
	if next := g.adviceFor(err); next != "" && !strings.HasSuffix(err.Error(), next) {
		return fmt.Errorf("%w; %s", err, next)
	}
	return err
}

// adviceFor returns the next step after an error, to append to its text. It is "" if unknown, or if the error
// contains it already.
func (g *globals) adviceFor(err error) string {
	table, _ := errors.AsType[*fault.TableError](err)
	namespace, _ := errors.AsType[*fault.NamespaceError](err)
	invalid, _ := errors.AsType[*dynalimit.ValidationError](err)
	switch {
	case table != nil && table.Fix == fault.CreateTable: // the error says how to create it
		return fmt.Sprintf("or name yours with --table (it is %q) and --region", g.Table)
	case table != nil && strings.Contains(table.Reason, "'dynalimit doctor'"): // an index is missing
		return ""
	case errors.Is(err, fault.ErrTable):
		return fmt.Sprintf("make it with 'dynalimit table create', or name yours with --table (it is %q) and --region", g.Table)
	case strings.Contains(err.Error(), "kinds_min") && strings.Contains(err.Error(), "AccessDenied"):
		return "that is once for a table, with its first group, and with its first quota: run this under the role that administers the whole table, not a namespace of it; any role that sets limits can set more then"
	case namespace != nil:
		return "list the namespaces with 'dynalimit namespace list', or name another with --namespace"
	case errors.Is(err, admin.ErrNotFound):
		return "list records and limits with 'dynalimit entity list' and 'dynalimit limits list'"
	case errors.Is(err, fault.ErrLost):
		return "the finished part stays: run the command again to continue"
	case errors.Is(err, fault.ErrVersion) && strings.Contains(err.Error(), "name another table"):
		return "name another with --table"
	case errors.Is(err, fault.ErrVersion):
		return "run a version of dynalimit that knows the table, or name another with --table"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start an engine there with 'dynalimit local', or correct --endpoint"
	case connect.NoCredentials(err):
		return "log in with 'aws sso login' or 'aws configure', name a profile with --profile, or ask an engine with --local or --endpoint; 'dynalimit doctor' tries them"
	case connect.Throttled(err):
		return "the table throttles: try again, or give it more throughput; 'dynalimit doctor' says what it refuses"
	case errors.Is(err, dynalimit.ErrUnavailable), connect.Unanswered(err):
		return "check --endpoint, --region and your credentials with 'dynalimit doctor', and try again"
	case invalid != nil:
		return "correct it and try again; --help has an example"
	}
	return ""
}
