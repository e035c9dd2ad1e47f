package dynalimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// told is the error that users see of what a lane says, or an error that is one
// already.
func (l *RateLimiter) told(at *lane.Lane, err error) error {
	if err == nil {
		return nil
	}
	return l.toldOf(at.Entity, at.Resource, err)
}

// toldOf is told of the bucket of an entity on a resource.
func (l *RateLimiter) toldOf(entity, resource string, err error) error {
	var f *lane.Failure
	if err == nil || !errors.As(err, &f) {
		return err
	}
	switch f.Reason {
	case lane.Silent:
		return l.silence(f.Err)
	case lane.Unconfirmed:
		return &UnavailableError{Op: f.Op, Err: f.Err}
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
func refusal(entity, resource string, f *lane.Failure) *ValidationError {
	switch f.Reason {
	case lane.Outdated:
		err := invalid("amounts["+f.Limit+"]", "is not a limit of entity %q on resource %q any more", entity, resource)
		err.outdated = true
		return err
	case lane.Overfull:
		return invalid("limits", "of entity %q on resource %q would be %d: %d configured, and %q, which are configured no more and go once they are full again; a bucket holds at most %d: keep some of those names, or wait, %v at most",
			entity, resource, len(f.Waiting)+f.Configured, f.Configured, f.Waiting, schema.MaxStored, duration(f.Wait).Round(time.Millisecond))
	case lane.TooDeep:
		return invalid("amounts["+f.Limit+"]", "puts the bucket of entity %q on resource %q more than %d tokens into debt, which is the most it stores; correct the amount, or delete the bucket's item, which forgives its debt",
			entity, resource, int64(plan.MaxDebt)/milli)
	default: // lane.Unlimited
		return invalid("limits", "none are configured for entity %q on resource %q any more", entity, resource)
	}
}

// silence is the error of a call whose bucket does not answer. A cause that says so
// already is not wrapped again: it would be told twice. A caller whose bucket, or
// table, has just begun to answer again is told to come soon.
func (l *RateLimiter) silence(cause error) *UnavailableError {
	if said, ok := errors.AsType[*UnavailableError](cause); ok {
		cause = said.Err
	}
	if f, ok := errors.AsType[*lane.Failure](cause); ok {
		cause = f.Err
	}
	return &UnavailableError{Op: "write the bucket", Err: cause, RetryAfter: cmp.Or(l.repo.breaker.RetryAfter(), lane.FirstProbe/2), silent: true}
}

// gone reports whether an error means that the store did not answer.
func gone(err error) bool { return errors.Is(err, ErrUnavailable) }

// unheard reports whether an error that users see means that the store said
// nothing: an answer, throttling too, proves that it lives.
func unheard(err error) bool {
	if err == nil { // the usual case makes no garbage
		return false
	}
	var u *UnavailableError
	return errors.As(err, &u) && (u.silent || ddb.Classify(u.Err, context.Background()).Silent)
}
