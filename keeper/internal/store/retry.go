package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// Once disables the SDK's own retries of a write. This package decides for each operation
// whether an unanswered write may be sent again.
var Once = ddb.WithoutRetries

// Diagnose returns the outcome of a write from the error of its request: ddb.Landed for nil.
func Diagnose(err error) ddb.Verdict { return ddb.Classify(err, context.Background()).Verdict }

// readError marks the error of a read. A failed read cannot have changed anything.
type readError struct{ error }

// Unwrap returns the original error of the read, for errors.Is and errors.As.
func (e readError) Unwrap() error { return e.error }

// AsReadError wraps err as the error of a read, which changed nothing, so that IsUnconfirmed returns false for
// it. errors.Is and errors.As still find err. It returns nil for nil.
func AsReadError(err error) error {
	if err == nil {
		return nil
	}
	return readError{err}
}

// IsUnconfirmed reports whether err is the error of a write that DynamoDB may have applied although no answer
// came. It is false for nil and for errors of AsReadError.
func IsUnconfirmed(err error) bool {
	return Diagnose(err) == ddb.Unconfirmed && !errors.As(err, new(readError))
}

// RefusedItem returns the stored item that made the condition of a single write fail. It returns nil if err is
// another error, or if the write did not ask for the item.
func RefusedItem(err error) Item { return ddb.Classify(err, context.Background()).Item }

// writeTries is the maximal number of tries of a write.
const writeTries = 12

// Backoff is the wait between two tries of a request.
var Backoff = ddb.Backoff{First: 4 * time.Millisecond, Most: 200 * time.Millisecond}

// GiveUp reports whether to stop after try n, counted from 0, which failed with err. It is true after try
// writeTries, if the table's breaker is open, or if ctx ends. Else it sleeps for the backoff first.
func GiveUp(ctx context.Context, n int, err error) bool {
	return n == writeTries || ddb.IsOpen(err) || !Backoff.Pause(ctx, n)
}

// Retry calls write, which must be safe to repeat, until the store answers, and returns that result: nil or the
// refusal. After GiveUp it returns the last error that may mean an applied write, else the last error.
func Retry(ctx context.Context, write func() error) error {
	var doubt error
	for n := 0; ; n++ {
		err := write()
		switch verdict := Diagnose(err); {
		case !verdict.Unavailable():
			return err
		case verdict == ddb.Unconfirmed:
			doubt = err
		}
		if GiveUp(ctx, n, err) {
			return cmp.Or(doubt, err)
		}
	}
}

// WrapError wraps err with the names of package and operation: an unavailable store as a
// *fault.UnavailableError with Unconfirmed and RetryAfter, others as plain errors. It returns nil, and an error
// that matches fault.ErrUnavailable, unchanged.
func WrapError(pkg, operation string, err error) error {
	if err == nil || errors.Is(err, fault.ErrUnavailable) {
		return err
	}
	if d := ddb.Classify(err, context.Background()); d.Verdict.Unavailable() {
		return &fault.UnavailableError{Package: pkg, Op: operation, Err: err, Unconfirmed: IsUnconfirmed(err), RetryAfter: d.RetryAfter}
	}
	return fmt.Errorf("%s: %s: %w", pkg, operation, err)
}
