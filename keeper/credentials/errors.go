package credentials

import (
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

var (
	// ErrInvalidCredentials means that a client's secret, or a provisioning key, is invalid. It
	// does not tell whether the client exists.
	ErrInvalidCredentials = errors.New("keeper/credentials: invalid credentials")
	// ErrTokenInvalid means that a retrieval token is unknown, belongs to another organisation
	// or app, or has expired. Nothing was consumed.
	ErrTokenInvalid = errors.New("keeper/credentials: invalid retrieval token")
	// ErrTokenUsed means that the token's secret was retrieved already.
	ErrTokenUsed = errors.New("keeper/credentials: retrieval token used")
	// ErrConflict means that another caller changed the same credentials at the same time, or
	// that the name of a key is taken. Nothing was written.
	ErrConflict = errors.New("keeper/credentials: conflict")
	// ErrNotFound means that an organisation or app has no credentials, or that no key has the
	// name.
	ErrNotFound = errors.New("keeper/credentials: not found")
	// ErrUnavailable matches every *UnavailableError: the store did not answer. It equals
	// dynalimit.ErrUnavailable.
	ErrUnavailable = fault.ErrUnavailable
)

// ValidationError is bad input; nothing was written. The packages dynalimit, budget and llm use
// the same type.
type ValidationError = fault.ValidationError

// UnavailableError is a failure of the store: throttling, a server error, a timeout or the
// network. Bad credentials never cause one, and a token never counts as valid because of one.
// The packages dynalimit, budget and llm use the same type.
type UnavailableError = fault.UnavailableError

// pkg is the package name in errors.
const pkg = "keeper/credentials"

// invalid returns the *ValidationError of an argument or option.
func invalid(field, format string, args ...any) error {
	return &ValidationError{Package: pkg, Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}

// conflictError returns an error that matches ErrConflict, with a formatted text after it.
func conflictError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrConflict}, args...)...)
}

// notFoundError returns an error that matches ErrNotFound, with a formatted text after it.
func notFoundError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNotFound}, args...)...)
}

// storeFailure returns nil, a *ValidationError and this package's own errors unchanged. It wraps any other
// error with the operation: as an *UnavailableError if the store is unavailable, else as a plain error.
func storeFailure(operation string, err error) error {
	for _, known := range []error{ErrInvalidCredentials, ErrTokenInvalid, ErrTokenUsed, ErrConflict, ErrNotFound} {
		if errors.Is(err, known) {
			return err
		}
	}
	if errors.As(err, new(*ValidationError)) {
		return err
	}
	return store.WrapError(pkg, operation, err)
}
