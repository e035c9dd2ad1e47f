package dynalimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// reason is why a lane ended an op.
type reason uint8

// Why a lane ended an op, other than by DynamoDB's answer to it.
const (
	failedSilent        reason = iota // the bucket does not answer
	failedUnconfirmed                 // a try went unanswered and cannot be recognised
	failedContended                   // others changed the bucket each time
	failedOutdated                    // a limit of the op is none any more
	failedUnlimited                   // nothing limits the bucket any more
	failedMisconfigured               // the stored configuration cannot be used
	failedOverfull                    // more limits than a claim can carry
	failedTooDeep                     // more debt than a bucket can store
	failedPanicked                    // the work on it panicked
)

// failure is how a lane ends an op that no answer of DynamoDB decided. It is a
// value for the limiter, which makes of it the error that users see.
type failure struct {
	// reason is why.
	reason reason
	// op is what was being done, of failedSilent and failedUnconfirmed.
	op string
	// limit names the limit, of failedOutdated and failedTooDeep.
	limit string
	// configured is how many limits are configured, waiting names those that are
	// no more and have not refilled, the last of them in wait ms: of
	// failedOverfull.
	configured int
	waiting    []string
	wait       int64
	// err is the cause, nil for none.
	err error
}

func (f *failure) Error() string {
	return fmt.Sprintf("lane: reason %d %s: %v", f.reason, f.limit, f.err)
}

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// Is matches ddb.ErrUnavailable when no answer came.
func (f *failure) Is(target error) bool {
	return target == ddb.ErrUnavailable && (f.reason == failedSilent || f.reason == failedUnconfirmed)
}

// ofConfiguration reports whether an error is of the configuration of takes,
// which adjusts do not need.
func ofConfiguration(err error) bool {
	var f *failure
	if !errors.As(err, &f) {
		return false
	}
	switch f.reason {
	case failedOutdated, failedUnlimited, failedMisconfigured, failedOverfull:
		return true
	default:
		return false
	}
}

var (
	// errTripped ends what is asked of a bucket that does not answer.
	errTripped = errors.New("the bucket does not answer; it is probed in the background")
	// errUnrecognised ends a write of which nobody knows whether it landed.
	errUnrecognised = errors.New("a try went unanswered and cannot be recognised")
)

const writeBucket = "write the bucket"

// silence is the failure of an op whose bucket does not answer.
func silence(cause error) *failure {
	return &failure{reason: failedSilent, op: writeBucket, err: cause}
}

// unconfirmed is the failure of an op that may have been written.
func unconfirmed(op string) *failure {
	return &failure{reason: failedUnconfirmed, op: op, err: errUnrecognised}
}

// silent reports whether an error means that the store said nothing: an answer,
// throttling too, proves that it lives.
func silent(err error) bool {
	if err == nil { // the usual case makes no garbage
		return false
	}
	var f *failure
	if errors.As(err, &f) && f.reason == failedSilent {
		return true
	}
	return errors.Is(err, ddb.ErrUnavailable) && ddb.Classify(err, context.Background()).Silent
}

// heard reports whether the store answered, if only with an error.
func heard(err error) bool {
	return err == nil || ddb.Classify(err, context.Background()).Answered
}
