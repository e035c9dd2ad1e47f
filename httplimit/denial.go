package httplimit

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/refusal"
)

// Denial is the reason that a request is not served, as problem details (RFC 9457). It reveals neither
// other callers, nor parents, nor internal errors.
type Denial struct {
	// Type is the URI of the problem, "about:blank" for one that its status says all of.
	Type string `json:"type"`
	// Title is the problem in a few words.
	Title string `json:"title"`
	// Status is 429 for a request that does not fit, 403 for a block and for a parent of Options.Identify that
	// has no record, 401 for a caller without one (dynalimit.Options.Unrecorded), 503 for a pause and
	// if the limits cannot be asked now, and 500 if they cannot be asked because of a mistake.
	Status int `json:"status"`
	// Detail describes the problem with this request.
	Detail string `json:"detail,omitempty"`
	// Violated names the caller's own limits that deny; empty if only a parent's do.
	Violated []string `json:"violated-policies,omitempty"`
	// RetryAfter is the exact wait; 0 if it is not known or no wait helps.
	RetryAfter time.Duration `json:"-"`
	// Err is the error of the acquire, for logs and metrics: it is not for clients.
	Err error `json:"-"`
}

// Write answers a request with the denial as JSON of the type application/problem+json, with its status.
// Retry-After must be set before. It ignores errors of the writer.
func (d *Denial) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	body, _ := json.Marshal(d) // strings and numbers
	w.WriteHeader(d.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

// setHeaders sets Cache-Control: no-store and, if a wait helps, Retry-After in whole seconds, rounded up.
// OnDenied may change both.
func (d *Denial) setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	if d.RetryAfter > 0 {
		h.Set("Retry-After", problem.RetryAfterText(d.RetryAfter))
	}
}

const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// newDenial converts an error of Acquire into the Denial that the client c may see: status, wait, and the names
// of c's own denying limits. An unknown error becomes status 500 without detail. Err keeps the error itself.
func newDenial(c refusal.Caller, err error) *Denial {
	r := c.Refuse(err)
	d := &Denial{Type: "about:blank", Detail: r.Detail, RetryAfter: r.RetryAfter, Err: err}
	for _, s := range r.Violated {
		d.Violated = append(d.Violated, c.PolicyName(s))
	}
	switch r.Kind {
	case refusal.Exceeded:
		d.Type, d.Status, d.Title = quotaExceeded, http.StatusTooManyRequests, "Too many requests"
	case refusal.Blocked:
		d.Status, d.Title = http.StatusForbidden, "Blocked"
	case refusal.Unrecorded:
		d.Status, d.Title = http.StatusUnauthorized, "Unauthorized"
	case refusal.Forbidden:
		d.Status, d.Title = http.StatusForbidden, "Forbidden"
	case refusal.Passing:
		d.Type, d.Status, d.Title = reducedCapacity, http.StatusServiceUnavailable, "Try again later"
	default:
		d.Status, d.Title = http.StatusInternalServerError, "Internal server error"
	}
	return d
}

// findExceeded returns the *LimitExceededError in err, nil without one.
func findExceeded(err error) *dynalimit.LimitExceededError {
	exceeded, _ := errors.AsType[*dynalimit.LimitExceededError](err)
	return exceeded
}
