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

// Refuse converts an error of an acquire.
func (c Caller) Refuse(err error) Refusal {
	var r Refusal
	r.RetryAfter, _ = dynalimit.RetryAfter(err)
	var exceeded *dynalimit.LimitExceededError
	switch {
	case errors.As(err, &exceeded):
		r.Kind = Exceeded
		r.Detail, r.Violated = c.violated(exceeded)
	case errors.Is(err, dynalimit.ErrBlocked):
		r.Kind, r.Detail = Blocked, "an administrator has blocked this"
	case errors.Is(err, dynalimit.ErrUnrecorded) && r.RetryAfter == 0:
		r.Kind, r.Detail = Unrecorded, "the caller is not known"
	case ofParent(err):
		r.Kind, r.Detail = Forbidden, "the caller's parent cannot be charged"
	case errors.Is(err, dynalimit.ErrPaused):
		r.Kind, r.Detail = Passing, "this is paused"
	case passing(err):
		r.Kind, r.Detail, r.RetryAfter = Passing, "limits cannot be checked now", max(r.RetryAfter, time.Second)
	}
	return r
}

// ofParent reports whether an error refuses the parent that the call gives.
func ofParent(err error) bool {
	wrong, ok := errors.AsType[*dynalimit.ValidationError](err)
	return ok && wrong.Package == "dynalimit" && wrong.Field == "WithParent"
}

// passing reports whether an error goes by on its own.
func passing(err error) bool {
	for _, of := range []error{dynalimit.ErrUnavailable, dynalimit.ErrUnrecorded, dynalimit.ErrContended, dynalimit.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// violated describes the amount that does not fit, and returns the caller's own denying limits.
func (c Caller) violated(e *dynalimit.LimitExceededError) (detail string, own []*dynalimit.LimitStatus) {
	for i := range e.Statuses {
		if s := &e.Statuses[i]; s.Exceeded && c.Owns(s) {
			own = append(own, s)
		}
	}
	switch {
	case len(own) > 0:
		return c.Describe(c.Binding(e.Statuses)), own
	case e.RetryAfter == dynalimit.Never:
		return "this is more than a limit that others share ever allows", nil
	}
	return "a limit that others share is used up", nil
}
