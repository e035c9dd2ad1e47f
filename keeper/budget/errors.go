package budget

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
)

var (
	// ErrConflict means that a request id was used before with another payload, or that another
	// caller changed a configuration at the same time.
	ErrConflict = errors.New("budget: conflict")
	// ErrNotFound means that an organisation or app does not exist.
	ErrNotFound = errors.New("budget: not found")
	// ErrSpoolInUse means that another keeper, in this process or another, uses the file of
	// Options.Spool.
	ErrSpoolInUse = errors.New("budget: spool in use")
	// ErrSpoolFull means that a record was dropped because the spool has reached
	// Options.SpoolBytes. The error also contains the store's error.
	ErrSpoolFull = errors.New("budget: spool full")
	// ErrClosed is the error of calls after Close.
	ErrClosed = ledger.ErrClosed
)

// pkg is the package name in errors.
const pkg = "budget"

// notFound returns an error that wraps ErrNotFound and names the missing object.
func notFound(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNotFound}, args...)...)
}

// invalid returns the *fault.ValidationError of a field of a request.
func invalid(field, format string, args ...any) error {
	return &fault.ValidationError{Package: pkg, Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}

// invalidConfig returns the *fault.ValidationError of a field of a configuration, which the administrator has
// to correct.
func invalidConfig(field, format string, args ...any) *fault.ValidationError {
	return &fault.ValidationError{Package: pkg, Field: field, Code: fault.InvalidConfig, Reason: fmt.Sprintf(format, args...)}
}

// wrapFailure wraps err with the operation's name: an unavailable store as a *fault.UnavailableError, else as a
// plain error. It returns nil, ErrNotFound, ErrClosed and wrapped errors unchanged.
func wrapFailure(operation string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return err
	}
	return ledger.WrapError(operation, err)
}

// isUnavailable reports whether err matches fault.ErrUnavailable: the store did not serve the request, or did
// not confirm it.
func isUnavailable(err error) bool { return errors.Is(err, fault.ErrUnavailable) }

// invalidLabelError returns the *fault.ValidationError for a label outside the app's ordering.
func invalidLabelError(label string) error {
	return &fault.ValidationError{
		Package: pkg, Field: "model_label", Code: fault.InvalidModelLabel, Reason: fmt.Sprintf("label %q is not in the app's ordering", label),
	}
}

// noModelError returns the *fault.ValidationError for a label that has no model id.
func noModelError(label string) error {
	return invalidConfig("models."+label, "label %q has no model id", label)
}

// asCallFailure returns a *fault.UnavailableError of the ledger with the operation's name in place of the
// ledger's. The end of the caller's context becomes such an error too, Unconfirmed, because the write may land.
// Other errors stay.
func asCallFailure(operation string, err error) error {
	var u *fault.UnavailableError
	switch {
	case errors.As(err, &u):
		return &fault.UnavailableError{Package: pkg, Op: operation, Err: u.Err, Unconfirmed: u.Unconfirmed, RetryAfter: u.RetryAfter}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &fault.UnavailableError{Package: pkg, Op: operation, Err: err, Unconfirmed: true}
	}
	return err
}

// conflictError returns an error that matches ErrConflict: the request id was used with another payload. It
// names the day and label of the stored record, if they are known.
func conflictError(stored ledger.Stored) error {
	if stored.Day == "" {
		return fmt.Errorf("%w: the request id was used with another payload", ErrConflict)
	}
	return fmt.Errorf("%w: the request id was used with another payload, on day %s for label %q", ErrConflict, stored.Day, stored.Label)
}
