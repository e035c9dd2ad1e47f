package fault

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnavailable matches every error that says that the store did not answer, of
// every package.
var ErrUnavailable = errors.New("dynalimit: store unavailable")

// UnavailableError says that DynamoDB did not answer, or refused to for lack of
// capacity. It is never a denial, and bad input is never one.
type UnavailableError struct {
	// Package is the package of the failed call: "dynalimit" or "budget"; empty is
	// "dynalimit".
	Package string
	// Op is the operation, for example "acquire" or "Submit".
	Op string
	// Err is the cause: the SDK's error.
	Err error
	// Unconfirmed says that a write may have landed; a read that failed never did.
	Unconfirmed bool
	// RetryAfter is the time until DynamoDB is asked again whether it answers; 0
	// when that is not known.
	RetryAfter time.Duration
}

// Error returns a text with the package, the operation and the cause, and whether a write may have been
// applied.
func (e *UnavailableError) Error() string {
	doubt := ""
	if e.Unconfirmed {
		doubt = " (may have been applied)"
	}
	return fmt.Sprintf("%s: %s: store unavailable%s: %v", packageOr(e.Package), e.Op, doubt, e.Err)
}

// Unwrap returns the SDK's error, Err.
func (e *UnavailableError) Unwrap() error { return e.Err }

// RetryIn returns RetryAfter, the time until DynamoDB is asked again, and true. It returns false if that is not
// known.
func (e *UnavailableError) RetryIn() (time.Duration, bool) { return e.RetryAfter, e.RetryAfter > 0 }

// Is reports whether target is ErrUnavailable, for errors.Is.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }
