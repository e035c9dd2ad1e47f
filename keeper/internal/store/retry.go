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

func (e readError) Unwrap() error { return e.error }

// AsReadError marks err as the error of a read, so that IsUnconfirmed does not count it as a perhaps applied
// write. It returns nil for nil.
func AsReadError(err error) error {
	if err == nil {
		return nil
	}
	return readError{err}
}

// IsUnconfirmed reports whether err leaves open that a write was applied.
func IsUnconfirmed(err error) bool {
	return Diagnose(err) == ddb.Unconfirmed && !errors.As(err, new(readError))
}

// RefusedItem returns the stored item that made the condition of a write fail, or nil if err has none.
func RefusedItem(err error) Item { return ddb.Classify(err, context.Background()).Item }

// writeTries is the maximal number of tries of a write.
const writeTries = 12

// Backoff is the wait between two tries of a request.
var Backoff = ddb.Backoff{First: 4 * time.Millisecond, Most: 200 * time.Millisecond}

// GiveUp reports whether to stop after n tries, the last of which failed with err. It waits before it returns
// false. It returns true if the store is known to be unavailable, the tries are used up, or ctx ends.
func GiveUp(ctx context.Context, n int, err error) bool {
	return n == writeTries || ddb.IsOpen(err) || !Backoff.Pause(ctx, n)
}

// Retry runs write, which must be safe to repeat, until the store answers or the tries are used up. If a
// failed try may have been applied, Retry returns the error of that try.
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

// WrapError wraps the error of an operation of package pkg. The result tells an unavailable store
// (fault.UnavailableError) from a fault. An error that was wrapped before stays as it is.
func WrapError(pkg, operation string, err error) error {
	if err == nil || errors.Is(err, fault.ErrUnavailable) {
		return err
	}
	if d := ddb.Classify(err, context.Background()); d.Verdict.Unavailable() {
		return &fault.UnavailableError{Package: pkg, Op: operation, Err: err, Unconfirmed: IsUnconfirmed(err), RetryAfter: d.RetryAfter}
	}
	return fmt.Errorf("%s: %s: %w", pkg, operation, err)
}
