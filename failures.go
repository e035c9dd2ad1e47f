package dynalimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// userError turns an error of a lane into the error that users see. An error that is one
// already stays.
func (l *RateLimiter) userError(at *lane.Lane, err error) error {
	if err == nil {
		return nil
	}
	return l.userErrorOf(at.Entity, at.Resource, err)
}

// userErrorOf is userError for the bucket of an entity on a resource.
func (l *RateLimiter) userErrorOf(entity, resource string, err error) error {
	var f *lane.Failure
	if err == nil || !errors.As(err, &f) {
		return err
	}
	switch f.Reason {
	case lane.Silent:
		return l.unanswered(f.Err)
	case lane.Unconfirmed:
		return &UnavailableError{Op: f.Op, Err: f.Err, Unconfirmed: true}
	case lane.Contended:
		return contended(entity, resource)
	case lane.Panicked:
		return fmt.Errorf("dynalimit: a write of the bucket of %s on %s ended by a panic: %w; the log has its stack", entity, resource, f.Err)
	case lane.Misconfigured:
		return f.Err
	}
	return refusal(entity, resource, f)
}

// refusal is the error of an op that cannot be written as it is.
func refusal(entity, resource string, f *lane.Failure) error {
	switch f.Reason {
	case lane.Outdated:
		return &outdatedError{invalid("amounts["+f.Limit+"]", "is not a limit of entity %q on resource %q any more", entity, resource)}
	case lane.Overfull:
		return invalid("limits", "of entity %q on resource %q would be %d: %d configured, and %q, which are configured no more and go once they are full again; a bucket holds at most %d: keep some of those names, or wait, %v at most",
			entity, resource, len(f.Waiting)+f.Configured, f.Configured, f.Waiting, schema.MaxStored, duration(f.Wait).Round(time.Millisecond))
	case lane.TooDeep:
		return invalid("amounts["+f.Limit+"]", "puts the bucket of entity %q on resource %q more than %d tokens into debt, which is the most it stores; correct the amount, or delete the bucket's item, which forgives its debt",
			entity, resource, int64(plan.MaxDebt)/milli)
	default: // lane.Unlimited
		return &outdatedError{invalid("limits", "none are configured for entity %q on resource %q any more", entity, resource)}
	}
}

// outdatedError is a refusal that became right after the call's configuration had been
// read. Under the configuration in force, the call may be right.
type outdatedError struct{ *ValidationError }

// Unwrap returns what users look for.
func (e *outdatedError) Unwrap() error { return e.ValidationError }

// silentCause marks the cause of an UnavailableError: DynamoDB said nothing at all.
type silentCause struct{ error }

func (e silentCause) Unwrap() error { return e.error }

// unanswered is the error of a call whose bucket does not answer. It does not wrap a
// cause that is such an error already, because the text would then say it twice. If the
// bucket or table has just begun to answer again, RetryAfter is short.
func (l *RateLimiter) unanswered(cause error) *UnavailableError {
	if said, ok := errors.AsType[*UnavailableError](cause); ok {
		cause = said.Err
	}
	if f, ok := errors.AsType[*lane.Failure](cause); ok {
		cause = f.Err
	}
	if marked, ok := cause.(silentCause); ok { //nolint:errorlint // the mark is the outermost
		cause = marked.error
	}
	return &UnavailableError{Op: "write the bucket", Err: silentCause{cause}, RetryAfter: cmp.Or(l.repo.breaker.RetryAfter(), lane.FirstProbe/2)}
}

// unavailable reports whether an error means that the store did not serve the request.
func unavailable(err error) bool { return errors.Is(err, ErrUnavailable) }

// silent reports whether an error that users see means that the store said nothing. An
// answer, even throttling, shows that the store is alive.
func silent(err error) bool {
	if err == nil { // the usual case makes no garbage
		return false
	}
	var u *UnavailableError
	return errors.As(err, &u) && (errors.As(u.Err, new(silentCause)) || ddb.Classify(u.Err, context.Background()).Silent)
}

// verdict is what an answer says about a write.
type verdict = ddb.Verdict

const (
	landed      = ddb.Landed
	refused     = ddb.Refused
	conflicted  = ddb.Conflicted
	throttled   = ddb.Throttled
	unsent      = ddb.Unsent
	unconfirmed = ddb.Unconfirmed
	failed      = ddb.Failed
)

// withoutRetries are the options of a write that must not be sent again blindly.
var withoutRetries = []func(*dynamodb.Options){ddb.WithoutRetries}

// withoutThrottleRetries are the options of a read of a bucket: its lane backs off.
var withoutThrottleRetries = []func(*dynamodb.Options){ddb.WithoutThrottleRetries}

// judge says what an error of a request means for a write.
func judge(err error) verdict { return table.Judge(err) }
