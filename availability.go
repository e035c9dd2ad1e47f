package dynalimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// availability is the state of the table, as its breaker knows it. It also makes the errors of
// unanswered calls.
type availability struct {
	*ddb.Breaker
	repo *Repository
}

// Cause is the reason why the table does not answer; nil while it answers.
func (t availability) Cause() error { return t.State().Cause }

// Probe asks the table whether it answers. The breaker records the answer.
func (t availability) Probe(ctx context.Context) error { return t.repo.buckets.ProbeTable(ctx) }

// away returns the error of a call that is not sent, because its bucket or table is known not to
// answer.
func (t availability) away() *UnavailableError {
	return t.unanswered(cmp.Or(t.Cause(), lane.ErrTripped))
}

// unanswered returns the error of a call whose bucket does not answer. It unwraps a cause that is an
// *UnavailableError, because the text would then say it twice. If the bucket or table has just begun to
// answer again, RetryAfter is short.
func (t availability) unanswered(cause error) *UnavailableError {
	if said, ok := errors.AsType[*UnavailableError](cause); ok {
		cause = said.Err
	}
	if f, ok := errors.AsType[*lane.Failure](cause); ok {
		cause = f.Err
	}
	if marked, ok := cause.(silentCause); ok { //nolint:errorlint // the mark is the outermost
		cause = marked.error
	}
	return &UnavailableError{Op: "write the bucket", Err: silentCause{cause}, RetryAfter: cmp.Or(t.RetryAfter(), lane.FirstProbe/2)}
}

// userError turns an error of a lane into the error that users see. It keeps an error that is one
// already.
func (t availability) userError(at *lane.Lane, err error) error {
	return askedAgain(t.userErrorOf(at.Entity, at.Resource, err), at.Turn())
}

// userErrorOf is userError for the bucket of an entity on a resource.
func (t availability) userErrorOf(entity, resource string, err error) error {
	var f *lane.Failure
	if err == nil || !errors.As(err, &f) {
		return err
	}
	switch f.Reason {
	case lane.Silent:
		return t.unanswered(f.Err)
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

// refusal returns the error of an op that cannot be written as it is.
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

// askedAgain adds a RetryAfter to a failure that was an answer, for lack of capacity: the time until
// the next write of the bucket, or a short wait.
func askedAgain(err error, turn time.Duration) error {
	u, ok := err.(*UnavailableError) //nolint:errorlint // as it is made, before anything wraps it
	if !ok || u.RetryAfter > 0 || u.Unconfirmed || silent(u) {
		return err
	}
	again := *u
	again.RetryAfter = max(turn, contentionPause+rand.N(contentionSpread))
	return &again
}
