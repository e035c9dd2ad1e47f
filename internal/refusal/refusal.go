// Package refusal selects the details that a refused caller may learn, for every protocol: its
// own denying limits and the wait, but neither parents nor internal errors.
package refusal

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit"
)

// Kind is why a call is not served.
type Kind int

const (
	// Mistake means that a person has to fix something first.
	Mistake Kind = iota
	// Exceeded means that the call does not fit.
	Exceeded
	// Blocked means that an administrator has blocked it.
	Blocked
	// Unrecorded means that the caller has no record, and has to have one.
	Unrecorded
	// Forbidden means that the caller's parent cannot be charged.
	Forbidden
	// Passing means that the same call may be admitted later without a fix.
	Passing
)

// Refusal has the details that a caller may learn.
type Refusal struct {
	// Kind is why.
	Kind Kind
	// Detail describes the problem with this call; empty for a mistake.
	Detail string
	// Violated are the caller's own limits that deny; none if only a parent's do.
	Violated []*dynalimit.LimitStatus
	// RetryAfter is the exact wait; 0 if it is not known or no wait helps.
	RetryAfter time.Duration
}

// Refuse converts an error of an acquire to the details that the caller may learn. An unknown error becomes a
// Mistake without detail; a passing one waits at least a second.
func (c Caller) Refuse(err error) Refusal {
	var r Refusal
	r.RetryAfter, _ = dynalimit.RetryAfter(err)
	var exceeded *dynalimit.LimitExceededError
	switch {
	case errors.As(err, &exceeded):
		r.Kind = Exceeded
		r.Detail, r.Violated = c.describeDenial(exceeded)
	case errors.Is(err, dynalimit.ErrBlocked):
		r.Kind, r.Detail = Blocked, "an administrator has blocked this"
	case errors.Is(err, dynalimit.ErrUnrecorded) && r.RetryAfter == 0:
		r.Kind, r.Detail = Unrecorded, "the caller is not known"
	case isParentRefused(err):
		r.Kind, r.Detail = Forbidden, "the caller's parent cannot be charged"
	case errors.Is(err, dynalimit.ErrPaused):
		r.Kind, r.Detail = Passing, "this is paused"
	case isPassing(err):
		r.Kind, r.Detail, r.RetryAfter = Passing, "limits cannot be checked now", max(r.RetryAfter, time.Second)
	}
	return r
}

// isParentRefused reports whether an error refuses the parent that the call names.
func isParentRefused(err error) bool {
	wrong, ok := errors.AsType[*dynalimit.ValidationError](err)
	return ok && wrong.Package == "dynalimit" && wrong.Field == "WithParent"
}

// isPassing reports whether the same call may succeed later without a fix. The store did not answer, the caller
// has no record yet, the limiter is closed, or the call ended.
func isPassing(err error) bool {
	for _, of := range []error{dynalimit.ErrUnavailable, dynalimit.ErrUnrecorded, dynalimit.ErrContended, dynalimit.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// describeDenial returns a description of the limit that denies, and the caller's own denying limits. It does
// not name a limit that others share.
func (c Caller) describeDenial(e *dynalimit.LimitExceededError) (detail string, own []*dynalimit.LimitStatus) {
	for i := range e.Statuses {
		if s := &e.Statuses[i]; s.Exceeded && c.Owns(s) {
			own = append(own, s)
		}
	}
	switch {
	case len(own) > 0:
		return c.DescribeLimit(c.TightestLimit(e.Statuses)), own
	case e.RetryAfter == dynalimit.Never:
		return "this is more than a limit that others share ever allows", nil
	}
	return "a limit that others share is used up", nil
}
