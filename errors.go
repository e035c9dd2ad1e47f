package dynalimit

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/sources"
)

// Never is the RetryAfter of an amount that can never fit: it exceeds the burst.
const Never time.Duration = math.MaxInt64

var (
	// ErrLimitExceeded matches every denial; use errors.As with
	// *LimitExceededError for the statuses and the wait.
	ErrLimitExceeded = errors.New("dynalimit: limit exceeded")
	// ErrExceedsBurst matches a denial that no wait can cure: the amount is
	// larger than the bucket.
	ErrExceedsBurst = errors.New("dynalimit: amount exceeds the burst")
	// ErrBlocked matches every *BlockedError.
	ErrBlocked = errors.New("dynalimit: blocked")
	// ErrPaused matches every *PausedError.
	ErrPaused = errors.New("dynalimit: paused")
	// ErrUnavailable matches every failure of the store, of the packages budget
	// and llm too; use errors.As with *UnavailableError for the cause.
	ErrUnavailable = fault.ErrUnavailable
	// ErrContended matches every *ContentionError.
	ErrContended = errors.New("dynalimit: bucket contended")
	// ErrClosed is returned by a limiter after Close.
	ErrClosed = call.ErrClosed
	// ErrUnconfirmed matches an *UnconfirmedError.
	ErrUnconfirmed = errors.New("dynalimit: outcome unconfirmed")
	// ErrLeaseEnded is returned by Adjust and Consume after Settle or Rollback.
	ErrLeaseEnded = errors.New("dynalimit: the lease has been settled or rolled back")
)

// LimitExceededError says that a request does not fit. Nothing was consumed. RetryAfter is the wait
// before the next try. Primary is the limit to show to a user.
type LimitExceededError struct {
	// EntityID is the entity of the call. Primary shows whether a limit of this entity or of a parent
	// is exceeded.
	EntityID string
	// Resource is the resource of the call.
	Resource string
	// RetryAfter is the exact wait until the whole request fits with no other
	// traffic, to the millisecond; Never when part of it exceeds a burst.
	RetryAfter time.Duration
	// Statuses holds every limit checked: the entity first, then its parents; of each the
	// resource before its groups; limits in name order.
	Statuses []LimitStatus
}

// Error names the limit that denies the longest, its entity and resource, the requested amount and the rest,
// and the wait. If no wait helps, it names the largest possible amount and the remedy.
func (e *LimitExceededError) Error() string {
	p := e.Primary()
	if e.RetryAfter == Never {
		most := "burst"
		if p.Limit.IsConcurrent() {
			most = "limit of calls in flight"
		}
		if p.Limit.IsQuota() {
			most = "quota"
		}
		if p.Requested <= p.Limit.Burst { // of a batch call
			return fmt.Sprintf("dynalimit: %s of %s on %s: %d asked by a batch call, the %s is %d, of which a reserve of %d is for interactive calls; ask for less or lower the reserve",
				p.Limit.Name, p.EntityID, p.Resource, p.Requested, most, p.Limit.Burst, p.Limit.ReservedTokens())
		}
		return fmt.Sprintf("dynalimit: %s of %s on %s: %d asked, the %s is %d; ask for less or raise the %s",
			p.Limit.Name, p.EntityID, p.Resource, p.Requested, most, p.Limit.Burst, most)
	}
	if p.Limit.IsConcurrent() {
		return fmt.Sprintf("dynalimit: %s of %s on %s exceeded: %d asked, %d of %d in flight; retry after about %v",
			p.Limit.Name, p.EntityID, p.Resource, p.Requested, p.InFlight, p.Limit.Capacity, e.RetryAfter)
	}
	return fmt.Sprintf("dynalimit: %s of %s on %s exceeded: %d asked, %d left; retry after %v",
		p.Limit.Name, p.EntityID, p.Resource, p.Requested, p.Remaining, e.RetryAfter)
}

// Is matches ErrLimitExceeded, and ErrExceedsBurst when no wait can help.
func (e *LimitExceededError) Is(target error) bool {
	return target == ErrLimitExceeded || target == ErrExceedsBurst && e.RetryAfter == Never
}

// RetryIn returns RetryAfter and true, or Never and false when no wait can help.
func (e *LimitExceededError) RetryIn() (time.Duration, bool) {
	return e.RetryAfter, e.RetryAfter != Never
}

// Primary returns the status of the limit that denies the longest; a zero status if none denies. A limit in
// shadow never denies.
func (e *LimitExceededError) Primary() LimitStatus {
	if worst := e.worstStatus(); worst != nil {
		return *worst
	}
	return LimitStatus{}
}

// worstStatus returns the status with the longest wait among those that deny; nil if none denies.
func (e *LimitExceededError) worstStatus() *LimitStatus {
	var worst *LimitStatus
	for i := range e.Statuses {
		s := &e.Statuses[i]
		if s.Exceeded && (worst == nil || s.RetryAfter > worst.RetryAfter) {
			worst = s
		}
	}
	return worst
}

// BlockedError says that the configuration admits no call at all. Nothing was consumed. Open leases can
// still be adjusted, settled and rolled back.
type BlockedError struct {
	// EntityID is the entity that is blocked: the call's, or a parent that it charges.
	EntityID string
	// Resource is the resource of the blocking record: the call's, or a group that the call charges.
	Resource string
	// Source is the source that blocks: the most specific one, if several do.
	Source sources.Source
	// Plan is the entity's plan if the block is the plan's; empty otherwise.
	Plan string
}

// Error names the blocked resource or entity, and the source of the block.
func (e *BlockedError) Error() string {
	where := "source " + string(e.Source)
	if e.Plan != "" {
		where += fmt.Sprintf(", plan %q", e.Plan)
	}
	return fmt.Sprintf("dynalimit: %s on %s is blocked (%s); no wait helps until an administrator lifts the block", e.EntityID, e.Resource, where)
}

// RetryIn returns Never and false, because no wait can help.
func (e *BlockedError) RetryIn() (time.Duration, bool) { return Never, false }

// Is matches ErrBlocked.
func (e *BlockedError) Is(target error) bool { return target == ErrBlocked }

// UnavailableError says that DynamoDB did not answer, or refused to for lack of capacity. It is never a
// denial.
//
// Op is the failed operation and Err its cause. RetryAfter is the time until DynamoDB is probed again
// (0: not known). Unconfirmed means that a write may have landed. It is one type for the packages
// budget and llm too; Package names the one that failed.
type UnavailableError = fault.UnavailableError

// PausedError says that a bucket is paused, because a provider reported that its limit is reached
// (RateLimiter.Pause). Nothing was consumed.
type PausedError struct {
	// EntityID is the entity of the paused bucket: the call's, or a parent that it charges.
	EntityID string
	// Resource is the resource of the paused bucket: the call's, or a group that it charges.
	Resource string
	// RetryAfter is the time until the pause ends.
	RetryAfter time.Duration
}

// Error names the bucket and the wait.
func (e *PausedError) Error() string {
	return fmt.Sprintf("dynalimit: %s on %s is paused, because its provider said stop; retry after %v", e.EntityID, e.Resource, e.RetryAfter)
}

// RetryIn returns RetryAfter and true.
func (e *PausedError) RetryIn() (time.Duration, bool) { return e.RetryAfter, true }

// Is matches ErrPaused.
func (e *PausedError) Is(target error) bool { return target == ErrPaused }

// ErrUnrecorded matches every *UnrecordedError.
var ErrUnrecorded = errors.New("dynalimit: the entity has no record")

// UnrecordedError says that an entity has no record and Options.Unrecorded is RefuseUnrecorded, or that the
// record of an entity or of a given parent (WithParent) was not looked up. Nothing was consumed.
type UnrecordedError struct {
	// EntityID is the entity of the call, or its given parent.
	EntityID string
	// RetryAfter is the wait before the next lookup of the record. It is above 0 if the table was not
	// asked, because too many lookups found no record. It is 0 if the table has no record.
	RetryAfter time.Duration
}

// Error names the entity, and the wait or the remedy.
func (e *UnrecordedError) Error() string {
	if e.RetryAfter > 0 {
		return fmt.Sprintf("dynalimit: %s was not looked up, because too many entities have no record; retry after %v", e.EntityID, e.RetryAfter)
	}
	return fmt.Sprintf("dynalimit: %s has no record (Options.Unrecorded); create it with admin.Entities.Create", e.EntityID)
}

// RetryIn returns RetryAfter and true; Never and false if the table has no record.
func (e *UnrecordedError) RetryIn() (time.Duration, bool) {
	if e.RetryAfter > 0 {
		return e.RetryAfter, true
	}
	return Never, false
}

// Is matches ErrUnrecorded.
func (e *UnrecordedError) Is(target error) bool { return target == ErrUnrecorded }

// ErrTooDeep is the error of a call whose entity has more than 8 levels of parents that count. It is
// returned if a level that would not be charged limits money, or if the call gives the parent
// (WithParent).
var ErrTooDeep = errors.New("dynalimit: too many levels of parents")

// ContentionError says that other clients changed a bucket before each try of this one, until it gave
// up. DynamoDB answered every request, so this is no outage, and no policy admits. It is no denial
// either. Nothing was taken.
type ContentionError struct {
	// EntityID is the entity of the bucket, or the first entity of buckets that were to be charged
	// together.
	EntityID string
	// Resource is the bucket's resource.
	Resource string
	// RetryAfter is a random wait, so that the contending clients do not collide again.
	RetryAfter time.Duration
}

// Error names the bucket and the wait.
func (e *ContentionError) Error() string {
	return fmt.Sprintf("dynalimit: the bucket of %s on %s changed before every write; retry after %v", e.EntityID, e.Resource, e.RetryAfter)
}

// RetryIn returns RetryAfter and true.
func (e *ContentionError) RetryIn() (time.Duration, bool) { return e.RetryAfter, true }

// Is matches ErrContended.
func (e *ContentionError) Is(target error) bool { return target == ErrContended }

// ValidationError names a wrong input. Nothing was written.
//
// Field names the input, for example "amounts[tpm]". Reason says why it is wrong and how to correct it.
// Code, for an HTTP API, is "INVALID_REQUEST" (package budget has more). It is one type for the
// packages budget and llm too; Package names the one that refuses.
type ValidationError = fault.ValidationError

// invalid returns a *ValidationError of this package for an input: its field, and why it is refused.
func invalid(field, format string, args ...any) *ValidationError {
	return &ValidationError{Package: "dynalimit", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}

// UnconfirmedError names the amounts that could not be confirmed as written. The bucket may lack them: it
// may not be debited for a charge, and may not have got back the tokens of a give-back. A lease counts
// them, unless NotWritten is set or Consume fails with it: a charge raises Lease.Used, and a give-back lowers it.
type UnconfirmedError struct {
	// EntityID is the entity of the bucket: the call's, or a parent. It is empty for the losses of
	// Close, which may concern many buckets.
	EntityID string
	// Resource is the resource of the bucket.
	Resource string
	// Amounts are the signed deltas that could not be confirmed, in whole tokens: positive for charges,
	// negative for give-backs.
	Amounts Amounts
	// NotWritten means that the amounts were surely not written: the same call again writes them,
	// unless Err is ErrClosed. If it is false, they may have been written, and must not be repeated.
	NotWritten bool
	// Err is the cause.
	Err error
}

// Error names the amounts by limit, the bucket, the cause, and whether the amounts were surely not written.
// Without an entity it says that Close lost them.
func (e *UnconfirmedError) Error() string {
	parts := make([]string, 0, len(e.Amounts))
	for _, name := range slices.Sorted(maps.Keys(e.Amounts)) {
		part := fmt.Sprintf("%s %+d", name, e.Amounts[name])
		if e.Amounts[name] == 0 { // nothing is charged: another level counts it since a change of configuration
			part = name + "'s count at the levels above"
		}
		parts = append(parts, part)
	}
	if e.EntityID == "" {
		return fmt.Sprintf("dynalimit: %s of degraded calls could not be written to the counters of buckets and are lost; give Close more time (its context, Options.CleanupTimeout): %v", strings.Join(parts, ", "), e.Err)
	}
	outcome := "may or may not have reached the bucket; do not repeat it"
	switch {
	case e.NotWritten && errors.Is(e.Err, ErrClosed):
		outcome = "was not written; settle leases before Close"
	case e.NotWritten:
		outcome = "was not written; the same call again writes it"
	}
	return fmt.Sprintf("dynalimit: %s of %s on %s %s: %v", strings.Join(parts, ", "), e.EntityID, e.Resource, outcome, e.Err)
}

// Unwrap returns the cause.
func (e *UnconfirmedError) Unwrap() error { return e.Err }

// Is matches ErrUnconfirmed.
func (e *UnconfirmedError) Is(target error) bool { return target == ErrUnconfirmed }

// UnsettledError counts the leases that SettleSoon was settling when the limiter was closed and that
// may not be settled. Their tokens stay consumed.
type UnsettledError struct {
	// Leases is the number of leases that were still being settled when Close returned.
	Leases int
	// Levels are the buckets that other leases could not surely correct.
	Levels []*UnconfirmedError
}

// Error counts the leases, and names the first bucket.
func (e *UnsettledError) Error() string {
	text := fmt.Sprintf("dynalimit: closed while %d leases were being settled", e.Leases)
	if len(e.Levels) > 0 {
		text += fmt.Sprintf(", and %d corrections of leases were not confirmed, the first: %v", len(e.Levels), e.Levels[0])
	}
	return text
}

// Is matches ErrUnconfirmed.
func (e *UnsettledError) Is(target error) bool { return target == ErrUnconfirmed }

// RetryAfter returns the wait before a call that failed with err can succeed, for errors of the
// packages budget and llm too. It is the longest wait among the errors that err wraps or joins. It is
// false if none of them has a wait, or if no wait can help.
func RetryAfter(err error) (time.Duration, bool) { return problem.RetryAfter(err) }

// configError turns a reason of package config into the error that users see: a refused input, an unreadable
// source, or an *UnavailableError for config.ErrOutOfTime. Any other error, and nil, stays.
func configError(l *layout.Layout, err error) error {
	if wrong, ok := errors.AsType[*config.Invalid](err); ok {
		return refusedBy(wrong)
	}
	if wrong, ok := errors.AsType[*config.Malformed](err); ok {
		return l.KindError(config.StoredField(wrong.Source), err)
	}
	if errors.Is(err, config.ErrOutOfTime) {
		return &UnavailableError{Op: call.ReadConfig, Err: err}
	}
	return err
}

// refusedBy converts the refusal of an input by package config to a *ValidationError with the same field,
// reason and fix.
func refusedBy(reason *config.Invalid) *ValidationError {
	e := invalid(reason.Field, "%s", reason.Reason)
	e.Fix = reason.Fix
	return e
}

// roomyDenial is a denial with room for the statuses of most calls. It is one allocation, because a
// denied caller comes again and again.
type roomyDenial struct {
	LimitExceededError
	room [2]LimitStatus
}

// newDenial returns a denial without statuses, and with room for two.
func newDenial(entityID, resource string) *LimitExceededError {
	d := &roomyDenial{LimitExceededError: LimitExceededError{EntityID: entityID, Resource: resource}}
	d.Statuses = d.room[:0]
	return &d.LimitExceededError
}

// errorOf turns the reason of a failed call, of package call or config, into the error that users see. It
// converts each part of a *call.Joined. Any other error, and nil, stays.
func errorOf(l *layout.Layout, err error) error {
	switch e := err.(type) { //nolint:errorlint // a reason is the outermost, but in Joined
	case *call.Joined:
		all := make([]error, len(e.Errs))
		for i, one := range e.Errs {
			all[i] = errorOf(l, one)
		}
		return errors.Join(all...)
	case *call.Denied:
		return denialOf(e)
	case *call.Blocked:
		return &BlockedError{EntityID: e.Key.Entity, Resource: e.Key.Resource, Source: e.Source, Plan: e.Plan}
	case *call.Paused:
		return &PausedError{EntityID: e.Entity, Resource: e.Resource, RetryAfter: e.RetryAfter}
	case *call.Contended:
		return &ContentionError{EntityID: e.Entity, Resource: e.Resource, RetryAfter: e.RetryAfter}
	case *call.Unrecorded:
		return &UnrecordedError{EntityID: e.Entity, RetryAfter: e.RetryAfter}
	case *call.TooDeep:
		return fmt.Errorf("%w: %s", ErrTooDeep, e.Reason)
	case *call.Unconfirmed:
		return &UnconfirmedError{EntityID: e.Entity, Resource: e.Resource, Amounts: tokensOf(e.Amounts), NotWritten: e.NotWritten, Err: errorOf(l, e.Err)}
	case *fault.UnavailableError:
		return err
	}
	return configError(l, err)
}

// denialOf returns the error of a call that does not fit, with the status of each requested limit in whole
// tokens.
func denialOf(d *call.Denied) *LimitExceededError {
	e := newDenial(d.Entity, d.Resource)
	e.Statuses = slices.Grow(e.Statuses, len(d.Balances))[:len(d.Balances)]
	for i := range d.Balances {
		e.Statuses[i].setBalance(&d.Balances[i])
	}
	e.RetryAfter = d.RetryAfter
	return e
}

// memoryDenial returns the error of a call that the last image of its bucket denies, with the statuses of the
// requested limits in whole tokens. RetryAfter is the longest wait of those that deny.
func memoryDenial(d *call.Denial) *LimitExceededError {
	e := newDenial(d.Lane.Entity, d.Lane.Resource)
	for i := range d.Config.Limits {
		if d.Needs[i] <= 0 {
			continue
		}
		l := &d.Config.Limits[i]
		stored := &d.Image.Limits[d.Config.PlaceIn(d.Image, i)]
		e.Statuses = append(e.Statuses, LimitStatus{})
		status := &e.Statuses[len(e.Statuses)-1]
		status.EntityID, status.Resource, status.Source = e.EntityID, e.Resource, sources.Source(l.Source)
		status.Limit.setBucket(l.Name, stored.Capacity, &stored.Rate)
		status.Limit.MaxDebt, status.Limit.Reserve = l.MaxDebt/milli, l.Reserve/milli
		status.setOutlook(d.Needs[i], d.Outlooks[i])
	}
	if worst := e.worstStatus(); worst != nil {
		e.RetryAfter = worst.RetryAfter
	}
	return e
}

// joinErrors returns err joined with the other errors that are not nil. It returns nil if all are.
func joinErrors(err error, others ...error) error {
	for _, other := range others {
		if other != nil {
			err = errors.Join(err, other)
		}
	}
	return err
}
