package ledger

import (
	"errors"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// ErrClosed says that the ledger is closed.
var ErrClosed = errors.New("budget: the keeper is closed; make a new one with New")

var (
	errCrowded = errors.New("too many operations wait for one counter; send it again later")
	errAway    = errors.New("the store did not answer")
)

// pkg is the package name in errors: callers know budget, not ledger.
const pkg = "budget"

// WrapError wraps err with the operation's name: as a *fault.UnavailableError for an unavailable store, else as
// a plain error. It returns nil, ErrClosed, and errors that match fault.ErrUnavailable unchanged.
func WrapError(operation string, err error) error {
	if errors.Is(err, ErrClosed) {
		return err
	}
	return store.WrapError(pkg, operation, err)
}

// OutageError returns a *fault.UnavailableError for the operation, with the cause and the time for a retry from
// the breaker of the table. If the table has just recovered, the cause says that the store did not answer.
func OutageError(operation string, table *ddb.Breaker) error {
	cause := table.State().Cause
	if cause == nil { // the table has just recovered
		cause = errAway
	}
	return &fault.UnavailableError{Package: pkg, Op: operation, Err: cause, RetryAfter: table.RetryAfter()}
}
