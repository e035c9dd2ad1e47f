package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// ErrClosed says that the ledger is closed.
var ErrClosed = errors.New("budget: the keeper is closed; make a new one with New")

// ErrNoHold says that a hold is not there: its lease has ended and the money was
// given back.
var ErrNoHold = errors.New("no such hold")

var (
	errCrowded = errors.New("too many operations wait for one counter; send it again later")
	errAway    = errors.New("the store did not answer")
)

// Unavailable says that the store did not answer, and what may have come of it.
type Unavailable struct {
	Operation   string        // what was asked for
	Err         error         // the cause
	Unconfirmed bool          // a write may have landed
	RetryAfter  time.Duration // until the store is asked again whether it answers; 0: not known
}

// Error implements error.
func (e *Unavailable) Error() string {
	doubt := ""
	if e.Unconfirmed {
		doubt = " (may have been applied)"
	}
	return fmt.Sprintf("budget: %s: store unavailable%s: %v", e.Operation, doubt, e.Err)
}

// Unwrap gives the cause.
func (e *Unavailable) Unwrap() error { return e.Err }

// Is matches what every failure of a store matches.
func (e *Unavailable) Is(target error) bool { return target == ddb.ErrUnavailable }

// Judge says of a request's error whether the store was out of reach, or
// something is wrong. What was judged before stays.
func Judge(operation string, err error) error {
	if err == nil || errors.As(err, new(*Unavailable)) || errors.Is(err, ErrClosed) {
		return err
	}
	if d := ddb.Classify(err, context.Background()); d.Verdict.Unavailable() {
		return &Unavailable{Operation: operation, Err: err, Unconfirmed: store.Unconfirmed(err), RetryAfter: d.RetryAfter}
	}
	return fmt.Errorf("budget: %s: %w", operation, err)
}

// Away is the error of what need not wait any longer: a table does not answer.
func Away(operation string, table *ddb.Breaker) error {
	cause := table.State().Cause
	if cause == nil { // it has just come back
		cause = errAway
	}
	return &Unavailable{Operation: operation, Err: cause, RetryAfter: table.RetryAfter()}
}
