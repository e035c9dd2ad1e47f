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

// Once stops the SDK from resending a write on its own: what an unanswered
// write may do again is decided here, per operation.
var Once = ddb.WithoutRetries

// Diagnose says what an error of a request means.
func Diagnose(err error) ddb.Verdict { return ddb.Classify(err, context.Background()).Verdict }

// readError marks what a read failed with: it cannot have changed anything.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// Reading marks an error as a read's; nil stays nil.
func Reading(err error) error {
	if err == nil {
		return nil
	}
	return readError{err}
}

// Unconfirmed says that err leaves open whether a write was applied.
func Unconfirmed(err error) bool {
	return Diagnose(err) == ddb.Unconfirmed && !errors.As(err, new(readError))
}

// RefusedItem is what the item holds that refused a single write.
func RefusedItem(err error) Item { return ddb.Classify(err, context.Background()).Item }

// writeTries bounds how often a write is sent again.
const writeTries = 12

// Backoff is the wait between the tries of a request.
var Backoff = ddb.Backoff{First: 4 * time.Millisecond, Most: 200 * time.Millisecond}

// GiveUp waits before the next try of a request that failed with err; true when
// there is to be none, as while the store is known not to answer.
func GiveUp(ctx context.Context, n int, err error) bool {
	return n == writeTries || ddb.IsOpen(err) || !Backoff.Pause(ctx, n)
}

// Retry runs a write that is safe to send again until it is answered. One that
// may have been applied stays so, whatever the last try failed with.
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

// Judge turns the error of an operation of a package into one that says whether the store
// could not be reached or something is wrong. An error that was judged before stays.
func Judge(pkg, operation string, err error) error {
	if err == nil || errors.Is(err, fault.ErrUnavailable) {
		return err
	}
	if d := ddb.Classify(err, context.Background()); d.Verdict.Unavailable() {
		return &fault.UnavailableError{Package: pkg, Op: operation, Err: err, Unconfirmed: Unconfirmed(err), RetryAfter: d.RetryAfter}
	}
	return fmt.Errorf("%s: %s: %w", pkg, operation, err)
}
