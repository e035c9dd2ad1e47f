package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/store"
	"github.com/dynalimit/dynalimit/sources"
)

// The reasons why a call fails. The root makes the errors that users see from them. Beside those here, a
// reason may be a Denied, a config.Invalid or config.Malformed, a public error of package fault, or the error
// of a context. Several reasons are a Joined, the main one first.

// ErrClosed is the reason of a call of a closed limiter.
var ErrClosed = errors.New("dynalimit: the limiter is closed; make a new one with New")

// Blocked is the reason of a call that the configuration blocks.
type Blocked struct {
	// Key is the blocked place, Source the source that blocks it, and Plan the entity's plan if the block is
	// the plan's.
	Key    config.Key
	Source sources.Source
	Plan   string
}

// Error returns a fixed short text without details. Users see another one, which package dynalimit makes from
// the fields.
func (e *Blocked) Error() string { return "blocked" }

// Paused is the reason of a call that charges a paused bucket. RetryAfter is the time until the pause ends.
type Paused struct {
	Entity, Resource string
	RetryAfter       time.Duration
}

// Error returns a fixed short text without details. Users see another one, which package dynalimit makes from
// the fields.
func (e *Paused) Error() string { return "paused" }

// spreadWait returns the time until a waiter comes back: RetryAfter and up to a quarter more, so that waiters
// do not come back at once.
func (e *Paused) spreadWait() time.Duration { return e.RetryAfter + rand.N(e.RetryAfter/4+1) }

// Contended is the reason of a call whose bucket changed before each try.
type Contended struct {
	Entity, Resource string
	// RetryAfter is a random wait, so that the contending clients do not collide again.
	RetryAfter time.Duration
}

// Error returns a fixed short text without details. Users see another one, which package dynalimit makes from
// the fields.
func (e *Contended) Error() string { return "contended" }

const (
	// contentionPause and contentionSpread bound the wait after contention.
	contentionPause  = 50 * time.Millisecond
	contentionSpread = 200 * time.Millisecond
)

// newContended returns the reason of a call that lost each try at a bucket, with a random RetryAfter of 50 to
// 250 ms.
func newContended(entity, resource string) *Contended {
	return &Contended{Entity: entity, Resource: resource, RetryAfter: contentionPause + rand.N(contentionSpread)}
}

// Unrecorded is the reason of a call of an entity without a record. RetryAfter is above 0 if the record was
// not looked up.
type Unrecorded struct {
	Entity     string
	RetryAfter time.Duration
}

// Error returns a fixed short text without details. Users see another one, which package dynalimit makes from
// the fields.
func (e *Unrecorded) Error() string { return "unrecorded" }

// TooDeep is the reason of a call whose entity has too many levels of parents.
type TooDeep struct{ Reason string }

// Error returns the reason as text, which the root's error contains.
func (e *TooDeep) Error() string { return e.Reason }

// Outdated is the refusal of a call because the configuration changed after the call had read it. Under the
// configuration in force, the call may be valid.
type Outdated struct{ Invalid *config.Invalid }

// Error returns the text of the refusal.
func (e *Outdated) Error() string { return e.Invalid.Error() }

// Unwrap returns the refusal.
func (e *Outdated) Unwrap() error { return e.Invalid }

// Unconfirmed is the reason for amounts that were not written at a bucket, or perhaps not.
type Unconfirmed struct {
	Entity, Resource string
	// Amounts are signed, in millitokens. NotWritten means that they were surely not written.
	Amounts    []plan.Signed
	NotWritten bool
	// Err is the cause.
	Err error
}

// Error returns a short text with the cause. Users see another one, which package dynalimit makes from the
// fields.
func (e *Unconfirmed) Error() string { return fmt.Sprintf("unconfirmed: %v", e.Err) }

// Unwrap returns the cause.
func (e *Unconfirmed) Unwrap() error { return e.Err }

// isUnconfirmed reports whether an error has amounts that may have been written.
func isUnconfirmed(err error) bool { return hasReason[*Unconfirmed](err) }

// invalid returns the reason of a call with an invalid input: its field, and why.
func invalid(field, format string, args ...any) *config.Invalid {
	return &config.Invalid{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// newBlocked returns the reason of a call that a source of an entity's configuration blocks.
func newBlocked(key config.Key, by sources.Source, c *config.Resolved) *Blocked {
	e := &Blocked{Key: key, Source: by}
	if by.OfPlan() {
		e.Plan = c.Plan
	}
	return e
}

// The classification of errors of the store: whether it answered, and whether the outage policy decides.

// leftToPolicy reports whether the outage policy decides about an error: the store did not answer, or did not
// confirm a write. Throttling and contention are answers.
func leftToPolicy(err error) bool {
	u, unavailable := findReason[*fault.UnavailableError](err)
	return unavailable && (u.Unconfirmed || isSilent(u))
}

// isUnavailable reports whether an error means that the store did not serve the request.
func isUnavailable(err error) bool { return errors.Is(err, fault.ErrUnavailable) }

// isRefusal reports whether an error refuses the table, or a call on it, as invalid.
func isRefusal(err error) bool {
	return hasReason[*config.Invalid](err) || hasReason[*Outdated](err) || hasReason[*fault.ValidationError](err)
}

// isSilent reports whether a reason means that the store did not answer at all. An answer, even throttling,
// shows that the store is alive.
func isSilent(err error) bool {
	u, unavailable := findReason[*fault.UnavailableError](err)
	return unavailable && (errors.Is(u.Err, errSilence) || ddb.Classify(u.Err, context.Background()).Silent)
}

// Silence marks the cause of an UnavailableError: DynamoDB did not answer at all.
type Silence struct{ error }

// errSilence matches every Silence.
var errSilence = errors.New("no answer")

// Is reports whether target is errSilence.
func (e Silence) Is(target error) bool { return target == errSilence }

// NewSilence returns a cause with the mark that DynamoDB did not answer at all.
func NewSilence(cause error) Silence { return Silence{cause} }

// Unwrap returns the cause.
func (e Silence) Unwrap() error { return e.error }

// ReadConfig is the name of the reads of configurations, for errors.
const ReadConfig = "read the configuration"

// errOutOfTime ends a call that used up its time for the store.
var errOutOfTime = config.ErrOutOfTime

// outOfTimeFor returns errOutOfTime with the cause of the delay, if that is known.
func outOfTimeFor(cause error) error {
	if cause == nil {
		return errOutOfTime
	}
	return fmt.Errorf("%w: %w", errOutOfTime, cause)
}

// maxOutdated bounds how often a call starts again because a limit was removed meanwhile.
const maxOutdated = 3

// isOutdated reports whether to start a call again under the configuration in force. A call whose amounts
// may have been written is not repeated.
func isOutdated(err error) bool {
	return hasReason[*Outdated](err) && !isUnconfirmed(err)
}

// needsNoBucket reports whether an error is a block, a pause or a missing record, which no bucket has to confirm.
// If nothing was read for it either, the call counts as decided from memory.
func needsNoBucket(err error) bool {
	return hasReason[*Blocked](err) || hasReason[*Paused](err) || hasReason[*Unrecorded](err)
}

// Joined are several reasons of one call, the main one first.
type Joined struct{ Errs []error }

// Error returns the texts of all reasons, one a line.
func (e *Joined) Error() string { return errors.Join(e.Errs...).Error() }

// Unwrap returns the reasons.
func (e *Joined) Unwrap() []error { return e.Errs }

// findReason returns the first reason of a type among those of a call. Only a Joined has several; nothing else
// wraps a reason.
func findReason[T error](err error) (reason T, found bool) {
	switch e := any(err).(type) {
	case T:
		return e, true
	case *Joined:
		for _, one := range e.Errs {
			if reason, found = findReason[T](one); found {
				return reason, true
			}
		}
	}
	return reason, false
}

// hasReason reports whether a reason of a type is among those of a call.
func hasReason[T error](err error) bool {
	_, found := findReason[T](err)
	return found
}

// joinReasons returns err and the other reasons that are not nil in a *Joined, err first; a single one as it
// is. err may be nil; it returns nil if all are.
func joinReasons(err error, others ...error) error {
	for _, other := range others {
		switch {
		case other == nil:
		case err == nil:
			err = other
		default:
			err = &Joined{[]error{err, other}}
		}
	}
	return err
}

// Table is the state of the table, as its breaker knows it. It also makes the reasons of unanswered calls.
type Table struct {
	*ddb.Breaker
	buckets *store.Buckets
}

// Cause returns the reason why the table does not answer; nil while it answers.
func (t Table) Cause() error { return t.State().Cause }

// Probe asks the table once whether it answers, and returns nil or the error. The breaker records the answer.
func (t Table) Probe(ctx context.Context) error { return t.buckets.ProbeTable(ctx) }

// away returns the reason of a call that is not sent, because its bucket or table is known not to
// answer.
func (t Table) away() *fault.UnavailableError {
	return t.unanswered(cmp.Or(t.Cause(), lane.ErrTripped))
}

// unanswered returns the reason of a call whose bucket does not answer. It unwraps a cause that is an
// *UnavailableError, because the text would then say it twice. If the bucket or table has just begun to
// answer again, RetryAfter is short.
func (t Table) unanswered(cause error) *fault.UnavailableError {
	if said, ok := findReason[*fault.UnavailableError](cause); ok {
		cause = said.Err
	}
	if f, ok := findReason[*lane.Failure](cause); ok {
		cause = f.Err
	}
	if marked, ok := cause.(Silence); ok { //nolint:errorlint // the mark is the outermost
		cause = marked.error
	}
	return &fault.UnavailableError{Op: "write the bucket", Err: Silence{cause}, RetryAfter: cmp.Or(t.RetryAfter(), lane.FirstProbe/2)}
}

// reasonAt returns the reason of a call for an error of the lane at. It keeps an error that is one already, and
// adds a RetryAfter to a failure for lack of capacity.
func (t Table) reasonAt(at *lane.Lane, err error) error {
	return withRetryAfter(t.ReasonOf(at.Entity, at.Resource, err), at.WriteWait())
}

// ReasonOf returns the reason of a call for a *lane.Failure of an entity's bucket on a resource. Any other
// error, and nil, stays.
func (t Table) ReasonOf(entity, resource string, err error) error {
	f, failed := findReason[*lane.Failure](err)
	if !failed {
		return err
	}
	switch f.Reason {
	case lane.Silent:
		return t.unanswered(f.Err)
	case lane.Unconfirmed:
		return &fault.UnavailableError{Op: f.Op, Err: f.Err, Unconfirmed: true}
	case lane.Contended:
		return newContended(entity, resource)
	case lane.Panicked:
		return fmt.Errorf("dynalimit: a write of the bucket of %s on %s ended by a panic: %w; the log has its stack", entity, resource, f.Err)
	case lane.Misconfigured:
		return f.Err
	}
	return refusalOf(entity, resource, f)
}

// refusalOf returns the reason of an op that a lane refused as it is: an *Outdated if its limit, or all limits,
// were removed. Too many limits, or too deep debt, are a *config.Invalid.
func refusalOf(entity, resource string, f *lane.Failure) error {
	switch f.Reason {
	case lane.Outdated:
		return &Outdated{invalid("amounts["+f.Limit+"]", "is not a limit of entity %q on resource %q any more", entity, resource)}
	case lane.Overfull:
		return invalid("limits", "of entity %q on resource %q would be %d: %d configured, and %q, which are no longer configured and are removed once they are full; a bucket holds at most %d: keep some of those names, or wait, %v at most",
			entity, resource, len(f.Waiting)+f.Configured, f.Configured, f.Waiting, schema.MaxStored, Duration(f.Wait).Round(time.Millisecond))
	case lane.TooDeep:
		return invalid("amounts["+f.Limit+"]", "puts the bucket of entity %q on resource %q more than %d tokens into debt, the most that it stores; correct the amount, or delete the bucket's item, which forgives its debt",
			entity, resource, int64(plan.MaxDebt)/milli)
	default: // lane.Unlimited
		return &Outdated{invalid("limits", "none are configured for entity %q on resource %q any more", entity, resource)}
	}
}

// withRetryAfter returns a copy of a failure for lack of capacity with a RetryAfter. That is turn, the time
// until the bucket's next write, or 50 to 250 ms at random if longer. Any other error, and one that has a
// RetryAfter, stays.
func withRetryAfter(err error, turn time.Duration) error {
	u, ok := err.(*fault.UnavailableError) //nolint:errorlint // as it is made, before anything wraps it
	if !ok || u.RetryAfter > 0 || u.Unconfirmed || isSilent(u) {
		return err
	}
	again := *u
	again.RetryAfter = max(turn, contentionPause+rand.N(contentionSpread))
	return &again
}
