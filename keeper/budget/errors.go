package budget

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
)

var (
	// ErrConflict says that a request id was used before with another payload,
	// or that a configuration was changed by somebody else at the same time.
	ErrConflict = errors.New("budget: conflict")
	// ErrNotFound says that an organisation or app does not exist.
	ErrNotFound = errors.New("budget: not found")
	// ErrSpoolInUse says that another keeper, of this process or another, has the
	// file of Options.Spool.
	ErrSpoolInUse = errors.New("budget: spool in use")
	// ErrSpoolFull says that a record was not kept because the spool has Options.SpoolBytes. The
	// error in hand also says why the store did not take it.
	ErrSpoolFull = errors.New("budget: spool full")
	// ErrClosed is returned by a keeper after Close.
	ErrClosed = ledger.ErrClosed
)

// pkg is this package as its errors name it.
const pkg = "budget"

// notFound is ErrNotFound with what does not exist.
func notFound(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNotFound}, args...)...)
}

func invalid(field, format string, args ...any) error {
	return &fault.ValidationError{Package: pkg, Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}

func invalidConfig(field, format string, args ...any) *fault.ValidationError {
	return &fault.ValidationError{Package: pkg, Field: field, Code: fault.InvalidConfig, Reason: fmt.Sprintf(format, args...)}
}

// failure wraps a store error for the caller: unavailable, or a bug.
func failure(operation string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return err
	}
	return ledger.Judge(operation, err)
}

// unavailable says that err is a failure of the store.
func unavailable(err error) bool { return errors.Is(err, fault.ErrUnavailable) }

func invalidLabel(label string) error {
	return &fault.ValidationError{
		Package: pkg, Field: "model_label", Code: fault.InvalidModelLabel, Reason: fmt.Sprintf("label %q is not in the app's ordering", label),
	}
}

func noModel(label string) error {
	return invalidConfig("models."+label, "label %q has no model id", label)
}

// asUnavailable adds the name of the operation to an error of the ledger. A caller's own
// deadline counts as the store not answering in time.
func asUnavailable(operation string, err error) error {
	var u *fault.UnavailableError
	switch {
	case errors.As(err, &u):
		return &fault.UnavailableError{Package: pkg, Op: operation, Err: u.Err, Unconfirmed: u.Unconfirmed, RetryAfter: u.RetryAfter}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &fault.UnavailableError{Package: pkg, Op: operation, Err: err, Unconfirmed: true}
	}
	return err
}

// conflictError says what a request id stands for already.
func conflictError(stored ledger.Stored) error {
	if stored.Day == "" {
		return fmt.Errorf("%w: the request id was used with another payload", ErrConflict)
	}
	return fmt.Errorf("%w: the request id was used with another payload, on day %s for label %q", ErrConflict, stored.Day, stored.Label)
}
