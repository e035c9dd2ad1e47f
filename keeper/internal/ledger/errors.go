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

// pkg is the package whose calls these are, as errors name it.
const pkg = "budget"

// Judge turns a request's error into one that says whether the store could not be
// reached or something is wrong. An error that was judged before stays.
func Judge(operation string, err error) error {
	if errors.Is(err, ErrClosed) {
		return err
	}
	return store.Judge(pkg, operation, err)
}

// Away is the error of a call that need not wait any longer, because a table does not
// answer.
func Away(operation string, table *ddb.Breaker) error {
	cause := table.State().Cause
	if cause == nil { // it has just come back
		cause = errAway
	}
	return &fault.UnavailableError{Package: pkg, Op: operation, Err: cause, RetryAfter: table.RetryAfter()}
}
