package budgetclient

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

var (
	// ErrUnauthorized means that the keeper refused the client's credentials, or its token even
	// after a new login. The error is a *StatusError.
	ErrUnauthorized = errors.New("budgetclient: unauthorized")
	// ErrForbidden means that the credentials are valid but belong to another organisation or
	// app. The error is a *StatusError.
	ErrForbidden = errors.New("budgetclient: forbidden")
)

// StatusError is a refusal for which package budget has no error.
type StatusError struct {
	// Op is the operation, for example "Submit".
	Op string
	// Status is the HTTP status of the response.
	Status int
	// Code is the code of the response, for example "UNAUTHORIZED".
	Code string
	// Message is the keeper's message. It is empty for a login.
	Message string
	// RequestID is the request id in the keeper's log. It may be empty.
	RequestID string
}

// Error returns a text with the operation, the status, the code and, if present, the keeper's message and the
// request id.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("budgetclient: %s: %d %s", e.Op, e.Status, e.Code)
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// Is reports whether target is ErrUnauthorized and the status is 401, or target is ErrForbidden and the status
// is 403. errors.Is calls it.
func (e *StatusError) Is(target error) bool {
	return target == ErrUnauthorized && e.Status == http.StatusUnauthorized || target == ErrForbidden && e.Status == http.StatusForbidden
}

// noResponse is the error of a try without a response from the keeper.
type noResponse struct {
	err   error
	again bool          // another try may succeed
	sent  bool          // the keeper may have executed the request
	after time.Duration // the requested wait; 0 if none
}

// Error returns the text of the underlying error.
func (f *noResponse) Error() string { return f.err.Error() }

// Unwrap returns the underlying error, for errors.Is and errors.As.
func (f *noResponse) Unwrap() error { return f.err }

// newNoResponse returns the error of a try that got no response because of err; another try may succeed. It
// counts as perhaps executed by the keeper, unless err says that no connection was made.
func newNoResponse(err error) *noResponse {
	var op *net.OpError
	return &noResponse{err: err, again: true, sent: !(errors.As(err, &op) && op.Op == "dial")}
}

// errorBody is the body of an error response.
type errorBody struct {
	Code      string    `json:"error"`
	Message   string    `json:"message"`
	Timestamp time.Time `json:"timestamp"`
	RequestID string    `json:"request_id"`
	Details   details   `json:"details"`
}

type details struct {
	Fields []struct {
		Field  string `json:"field"`
		Reason string `json:"reason"`
	} `json:"fields"`
	RetryAfter *time.Time           `json:"retry_after"`
	Labels     []prices.LabelStatus `json:"labels"`
	Overage    int64                `json:"total_overage_usd_micros"`
}

const maxMessage = 512 // bytes of the keeper's text in an error

// decodeFailure returns the error of a response with a failure status. It is a *noResponse if another try may
// help or a proxy answered, else the keeper's refusal as an error of package budget. It cuts the keeper's
// message to maxMessage bytes.
func decodeFailure(op string, status int, header http.Header, body []byte, now time.Time) error {
	var e errorBody
	if err := json.Unmarshal(body, &e); err != nil || e.Code == "" {
		return &noResponse{
			err:   fmt.Errorf("%d %s, not from the keeper", status, http.StatusText(status)),
			again: isTransient(status), sent: true, after: retryAfter(header, now),
		}
	}
	if len(e.Message) > maxMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxMessage], "") + "…"
	}
	if status == http.StatusTooManyRequests && e.Code != "QUOTA_EXCEEDED" || isTransient(status) && status != http.StatusTooManyRequests {
		return &noResponse{
			err:   fmt.Errorf("%d %s: %s (request %s)", status, e.Code, e.Message, cmp.Or(e.RequestID, "none")),
			again: true, sent: status != http.StatusTooManyRequests, after: retryAfter(header, now),
		}
	}
	return e.refusal(op, status, now)
}

// refusal returns the error that the keeper's response stands for: *prices.QuotaExceededError for 429,
// budget.ErrConflict, budget.ErrNotFound, *fault.ValidationError, or else a *StatusError. op is the operation's
// name in that.
func (e errorBody) refusal(op string, status int, now time.Time) error {
	switch {
	case status == http.StatusTooManyRequests:
		return e.quotaExceeded(now)
	case status == http.StatusConflict:
		return fmt.Errorf("%w: %s", budget.ErrConflict, e.Message)
	case status == http.StatusNotFound:
		return fmt.Errorf("%w: %s", budget.ErrNotFound, e.Message)
	case status == http.StatusBadRequest && strings.HasPrefix(e.Code, "INVALID_"):
		bad := &fault.ValidationError{Package: "budget", Field: "request", Code: fault.Code(e.Code), Reason: e.Message}
		if len(e.Details.Fields) > 0 {
			bad.Field, bad.Reason = e.Details.Fields[0].Field, e.Details.Fields[0].Reason
		}
		return bad
	}
	return &StatusError{Op: op, Status: status, Code: e.Code, Message: e.Message, RequestID: e.RequestID}
}

// quotaExceeded returns a *prices.QuotaExceededError with the labels, overage and RetryAt of the keeper's
// response. Its DecidedAt is the response's timestamp, by the keeper's clock, or now without one.
func (e errorBody) quotaExceeded(now time.Time) error {
	out := &prices.QuotaExceededError{Labels: e.Details.Labels, OverageMicros: e.Details.Overage, DecidedAt: cmp.Or(e.Timestamp, now)}
	if at := e.Details.RetryAfter; at != nil {
		out.RetryAt = *at
	}
	return out
}

// isTransient reports whether the same request may succeed after a response with this status. It is true for
// a redirect, because a keeper sends none.
func isTransient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return status < http.StatusBadRequest // a proxy's response instead of the keeper's
}

// retryAfter returns the wait that the Retry-After header requests, in seconds or as a date after now. It is 0
// for a missing, malformed or past value.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}

// unavailable returns err as a *fault.UnavailableError of operation op, or err itself if it wraps one already.
// unconfirmed means that the keeper may have executed the call; after is the requested wait, or 0.
func unavailable(op string, err error, unconfirmed bool, after time.Duration) error {
	var known *fault.UnavailableError
	if errors.As(err, &known) {
		return err
	}
	return &fault.UnavailableError{Package: "budget", Op: op, Err: err, Unconfirmed: unconfirmed, RetryAfter: after}
}

// statuses maps the codes of a batch's records to HTTP statuses.
var statuses = map[string]int{
	"UNAUTHORIZED": http.StatusUnauthorized, "FORBIDDEN": http.StatusForbidden, "NOT_FOUND": http.StatusNotFound,
	"IDEMPOTENCY_CONFLICT": http.StatusConflict, "CONCURRENT_MODIFICATION": http.StatusConflict,
	"QUOTA_EXCEEDED": http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED": http.StatusTooManyRequests,
	"INTERNAL_ERROR": http.StatusInternalServerError, "SERVICE_UNAVAILABLE": http.StatusServiceUnavailable,
}

// recordError returns the error of one record of a batch, as Submit would return it. If the keeper's store
// failed, that is an unconfirmed *fault.UnavailableError. now serves where the response has no timestamp.
func (e errorBody) recordError(now time.Time) error {
	status := cmp.Or(statuses[e.Code], http.StatusBadRequest)
	if status >= http.StatusInternalServerError {
		return unavailable("SubmitBatch", fmt.Errorf("%s: %s", e.Code, e.Message), true, 0)
	}
	return e.refusal("SubmitBatch", status, now)
}
