package dynalimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// The classification of errors of the store: whether it answered, and whether the outage policy
// decides.

// leftToPolicy reports whether the outage policy decides about an error: the store did not answer.
// Throttling and contention are answers.
func leftToPolicy(err error) bool {
	var u *UnavailableError
	return errors.As(err, &u) && (u.Unconfirmed || silent(u))
}

// admits reports whether the policy may admit calls without the store.
func (p UnavailablePolicy) admits() bool { return p == Allow || p == Local }

// unavailable reports whether an error means that the store did not serve the request.
func unavailable(err error) bool { return errors.Is(err, ErrUnavailable) }

// isValidation reports whether an error refuses the table, or a call on it, as invalid.
func isValidation(err error) bool {
	var v *ValidationError
	return errors.As(err, &v)
}

// silent reports whether an error for users means that the store did not answer at all. An answer, even
// throttling, shows that the store is alive.
func silent(err error) bool {
	if err == nil { // the usual case makes no garbage
		return false
	}
	var u *UnavailableError
	return errors.As(err, &u) && (errors.As(u.Err, new(silentCause)) || ddb.Classify(u.Err, context.Background()).Silent)
}

// silentCause marks the cause of an UnavailableError: DynamoDB did not answer at all.
type silentCause struct{ error }

func (e silentCause) Unwrap() error { return e.error }

// errOutOfTime ends a call that used up its time for the store.
var errOutOfTime = config.ErrOutOfTime

// outOfTimeFor returns errOutOfTime with the cause of the delay, if that is known.
func outOfTimeFor(cause error) error {
	if cause == nil {
		return errOutOfTime
	}
	return fmt.Errorf("%w: %w", errOutOfTime, cause)
}

// outdatedError is a refusal because the configuration changed after the call had read it. Under the
// configuration in force, the call may be valid.
type outdatedError struct{ *ValidationError }

// Unwrap returns the *ValidationError.
func (e *outdatedError) Unwrap() error { return e.ValidationError }

// maxOutdated bounds how often a call starts again because a limit was removed meanwhile.
const maxOutdated = 3

// outdated reports whether to start a call again under the configuration in force. A call whose amounts
// may have been written is not repeated.
func outdated(err error) bool {
	_, changed := errors.AsType[*outdatedError](err)
	return changed && !errors.Is(err, ErrUnconfirmed)
}

// joined joins the other errors that are not nil to err.
func joined(err error, others ...error) error {
	for _, other := range others {
		if other != nil {
			err = errors.Join(err, other)
		}
	}
	return err
}
