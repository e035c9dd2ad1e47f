package httplimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// Denial is why a request is not served, as problem details (RFC 9457) tell it. It says nothing
// of other callers, of parents, or of what is wrong inside.
type Denial struct {
	// Type is the URI of the problem, "about:blank" for one that its status says all of.
	Type string `json:"type"`
	// Title is the problem in a few words.
	Title string `json:"title"`
	// Status is 429 for what does not fit, 403 for a block, 503 if the limits cannot be asked now,
	// and 500 if they cannot be asked because of a mistake.
	Status int `json:"status"`
	// Detail says what is wrong with this request.
	Detail string `json:"detail,omitempty"`
	// Violated names the caller's own limits that deny; empty if only a parent's do.
	Violated []string `json:"violated-policies,omitempty"`
	// RetryAfter is the exact wait; 0 if it is not known or no wait helps.
	RetryAfter time.Duration `json:"-"`
	// Err is the error of the acquire, for logs and metrics: it is not for clients.
	Err error `json:"-"`
}

// Write answers with the denial as application/problem+json.
func (d *Denial) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	body, _ := json.Marshal(d) // strings and numbers
	w.WriteHeader(d.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

// setHeaders sets what the answer has whatever its body is.
func (d *Denial) setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	if d.RetryAfter > 0 {
		h.Set("Retry-After", problem.Seconds(d.RetryAfter))
	}
}

const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// denialOf is what an error of an acquire is answered with.
func denialOf(c caller, err error) *Denial {
	d := &Denial{Type: "about:blank", Err: err}
	d.RetryAfter, _ = dynalimit.RetryAfter(err)
	var exceeded *dynalimit.LimitExceededError
	switch {
	case errors.As(err, &exceeded):
		d.Type, d.Status, d.Title = quotaExceeded, http.StatusTooManyRequests, "Too many requests"
		d.Detail, d.Violated = c.violated(exceeded)
	case errors.Is(err, dynalimit.ErrBlocked):
		d.Status, d.Title, d.Detail = http.StatusForbidden, "Blocked", "an administrator has blocked this"
	case passing(err):
		d.Type, d.Status, d.Title = reducedCapacity, http.StatusServiceUnavailable, "Limits cannot be checked"
		d.Detail, d.RetryAfter = "try again", max(d.RetryAfter, time.Second)
	default:
		d.Status, d.Title = http.StatusInternalServerError, "Internal server error"
	}
	return d
}

// passing reports whether the same request may be admitted later although nobody mends
// anything.
func passing(err error) bool {
	for _, of := range []error{dynalimit.ErrUnavailable, dynalimit.ErrContended, dynalimit.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// exceededOf is the denial by a limit in an error; nil if there is none.
func exceededOf(err error) *dynalimit.LimitExceededError {
	exceeded, _ := errors.AsType[*dynalimit.LimitExceededError](err)
	return exceeded
}

// violated tells a caller what does not fit, and which of its own limits deny.
func (c caller) violated(e *dynalimit.LimitExceededError) (detail string, names []string) {
	for i := range e.Statuses {
		if s := &e.Statuses[i]; s.Exceeded && c.owns(s) {
			names = append(names, c.policy(s))
		}
	}
	s := c.binding(e.Statuses)
	switch {
	case len(names) == 0 && e.RetryAfter == dynalimit.Never:
		return "this is more than a limit that others share ever allows", nil
	case len(names) == 0:
		return "a limit that others share is used up", nil
	case s.RetryAfter == dynalimit.Never:
		return fmt.Sprintf("%s: %d asked, at most %d can ever be", c.policy(s), s.Requested, s.Limit.Burst), names
	}
	return fmt.Sprintf("%s: %d asked, %d left", c.policy(s), s.Requested, max(s.Remaining, 0)), names
}
