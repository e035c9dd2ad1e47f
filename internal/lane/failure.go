package lane

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// Reason is why a lane ended an op.
type Reason uint8

// The reasons why a lane ended an op without a deciding answer of DynamoDB.
const (
	Silent        Reason = iota // the bucket does not answer
	Unconfirmed                 // a try went unanswered and cannot be recognised
	Contended                   // others changed the bucket each time
	Outdated                    // a limit of the op does not exist any more
	Unlimited                   // nothing limits the bucket any more
	Misconfigured               // the stored configuration cannot be used
	Overfull                    // more limits than a claim can carry
	TooDeep                     // more debt than a bucket can store
	Panicked                    // the work on it panicked
)

// Failure is the reason why a lane ended an op without a deciding answer of DynamoDB. The limiter turns
// it into the error that users see.
type Failure struct {
	// Reason is the reason.
	Reason Reason
	// Op is the failed operation; set for Silent and Unconfirmed.
	Op string
	// Limit names the limit; set for Outdated and TooDeep.
	Limit string
	// Configured, Waiting and Wait are set for Overfull. Configured is the number of configured limits.
	// Waiting names the limits in the bucket that are no longer configured and have not refilled yet.
	// The last of them is full in Wait ms.
	Configured int
	Waiting    []string
	Wait       int64
	// Err is the cause; it may be nil.
	Err error
}

// Error returns the number of the reason, the limit and the cause. Users see another text, which the limiter
// makes.
func (f *Failure) Error() string {
	return fmt.Sprintf("lane: reason %d %s: %v", f.Reason, f.Limit, f.Err)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Is reports whether target is fault.ErrUnavailable and the store gave no answer: the reason is Silent or
// Unconfirmed.
func (f *Failure) Is(target error) bool {
	return target == fault.ErrUnavailable && (f.Reason == Silent || f.Reason == Unconfirmed)
}

// isOfConfiguration reports whether an error is about the configuration of takes, which adjusts do not need.
// Such errors are a removed limit, no limits, an invalid configuration and too many limits.
func isOfConfiguration(err error) bool {
	f, failed := err.(*Failure) //nolint:errorlint // nothing wraps one
	if !failed {
		return false
	}
	switch f.Reason {
	case Outdated, Unlimited, Misconfigured, Overfull:
		return true
	default:
		return false
	}
}

var (
	// ErrTripped is the cause of an op that ended because its bucket does not answer.
	ErrTripped = errors.New("the bucket does not answer; it is probed in the background")
	// errUnrecognised ends a write with an unknown outcome.
	errUnrecognised = errors.New("a try went unanswered and cannot be recognised")
)

const writeBucket = "write the bucket"

// silence returns a *Failure with the reason Silent, for an op whose bucket does not answer.
func silence(cause error) *Failure {
	return &Failure{Reason: Silent, Op: writeBucket, Err: cause}
}

// unconfirmed returns a *Failure with the reason Unconfirmed, for an op that may have been written.
func unconfirmed(op string) *Failure {
	return &Failure{Reason: Unconfirmed, Op: op, Err: errUnrecognised}
}

// silent reports whether an error means that the store gave no answer at all; false for nil. Throttling is an
// answer: it shows that the store is alive.
func silent(err error) bool {
	if err == nil { // the usual case makes no garbage
		return false
	}
	if f, failed := err.(*Failure); failed && f.Reason == Silent { //nolint:errorlint // nothing wraps one
		return true
	}
	return errors.Is(err, fault.ErrUnavailable) && ddb.Classify(err, context.Background()).Silent
}

// hasAnswer reports whether the store answered: true for nil, and for an error that came from the store.
func hasAnswer(err error) bool {
	return err == nil || ddb.Classify(err, context.Background()).Answered
}

// isThrottling reports whether an error means that the store lacked capacity. It is false for nil, and if the
// store gave no answer.
func isThrottling(err error) bool {
	return err != nil && !silent(err) && ddb.Classify(err, context.Background()).Verdict == ddb.Throttled
}
