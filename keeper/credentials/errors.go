package credentials

import (
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

var (
	// ErrInvalidCredentials says that a client and its secret, or a provisioning key, are
	// not good. It does not say why: whether the client exists is nobody's business.
	ErrInvalidCredentials = errors.New("keeper/credentials: invalid credentials")
	// ErrTokenInvalid says that a retrieval token is unknown, belongs to another
	// organisation or app, or has expired. Nothing was consumed.
	ErrTokenInvalid = errors.New("keeper/credentials: invalid retrieval token")
	// ErrTokenUsed says that the secret behind a retrieval token was handed out already.
	ErrTokenUsed = errors.New("keeper/credentials: retrieval token used")
	// ErrConflict says that somebody else changed the same credentials at the same time,
	// or that a key's name is taken. Nothing was written.
	ErrConflict = errors.New("keeper/credentials: conflict")
	// ErrNotFound says that an organisation or app has no credentials, or that there is no
	// key of a name.
	ErrNotFound = errors.New("keeper/credentials: not found")
	// ErrUnavailable matches every *UnavailableError: the store did not answer. It is
	// dynalimit.ErrUnavailable.
	ErrUnavailable = fault.ErrUnavailable
)

// ValidationError is bad input; nothing was written. It is one type for the packages
// dynalimit, budget and llm too.
type ValidationError = fault.ValidationError

// UnavailableError is a failure of the store: throttling, a server error, a timeout or the
// network. Bad credentials are never one, and no token is good because of one. It is one
// type for the packages dynalimit, budget and llm too.
type UnavailableError = fault.UnavailableError

// pkg is this package as its errors name it.
const pkg = "keeper/credentials"

func invalid(field, format string, args ...any) error {
	return &ValidationError{Package: pkg, Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}

func conflict(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrConflict}, args...)...)
}

func notFound(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNotFound}, args...)...)
}

// failure wraps an error of the store for the caller: unavailable, or a bug. What says
// already what it is stays.
func failure(operation string, err error) error {
	for _, known := range []error{ErrInvalidCredentials, ErrTokenInvalid, ErrTokenUsed, ErrConflict, ErrNotFound} {
		if errors.Is(err, known) {
			return err
		}
	}
	if errors.As(err, new(*ValidationError)) {
		return err
	}
	return store.Judge(pkg, operation, err)
}
