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
	// ErrUnauthorized says that the keeper does not take the client's credentials, or its
	// token even after a new login. The error in hand is a *StatusError.
	ErrUnauthorized = errors.New("budgetclient: unauthorized")
	// ErrForbidden says that the credentials are good, but of another organisation or app.
	// The error in hand is a *StatusError.
	ErrForbidden = errors.New("budgetclient: forbidden")
)

// StatusError is an answer that no error of package budget says.
type StatusError struct {
	// Op is what was asked for, for example "Submit".
	Op string
	// Status is the answer's HTTP status.
	Status int
	// Code is the answer's code, for example "UNAUTHORIZED".
	Code string
	// Message is what the keeper says about it; empty of a login.
	Message string
	// RequestID is the id under which the keeper's log has it; empty if it gave none.
	RequestID string
}

// Error names what was asked for and the answer.
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

// Is matches ErrUnauthorized and ErrForbidden by the status.
func (e *StatusError) Is(target error) bool {
	return target == ErrUnauthorized && e.Status == http.StatusUnauthorized || target == ErrForbidden && e.Status == http.StatusForbidden
}

// unanswered is a try that got no answer of the keeper: neither what was asked for nor a refusal.
type unanswered struct {
	err   error
	again bool          // another try may succeed
	sent  bool          // it may have been carried out
	after time.Duration // what the keeper asks to wait; 0 if nothing
}

func (f *unanswered) Error() string { return f.err.Error() }
func (f *unanswered) Unwrap() error { return f.err }

// lost is a try that failed with err. Only without a connection was it not sent for
// certain.
func lost(err error) *unanswered {
	var op *net.OpError
	return &unanswered{err: err, again: true, sent: !(errors.As(err, &op) && op.Op == "dial")}
}

// answerError is the body of an answer that is no success.
type answerError struct {
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

// failure is what an answer that is no success says.
func failure(op string, status int, header http.Header, body []byte, now time.Time) error {
	var e answerError
	if err := json.Unmarshal(body, &e); err != nil || e.Code == "" {
		return &unanswered{
			err:   fmt.Errorf("%d %s, not from the keeper", status, http.StatusText(status)),
			again: transient(status), sent: true, after: retryAfter(header, now),
		}
	}
	if len(e.Message) > maxMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxMessage], "") + "…"
	}
	if status == http.StatusTooManyRequests && e.Code != "QUOTA_EXCEEDED" || transient(status) && status != http.StatusTooManyRequests {
		return &unanswered{
			err:   fmt.Errorf("%d %s: %s (request %s)", status, e.Code, e.Message, cmp.Or(e.RequestID, "none")),
			again: true, sent: status != http.StatusTooManyRequests, after: retryAfter(header, now),
		}
	}
	return e.refusal(op, status, now)
}

// refusal is the error of package budget that an answer stands for.
func (e answerError) refusal(op string, status int, now time.Time) error {
	switch {
	case status == http.StatusTooManyRequests:
		return e.exceeded(now)
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

// exceeded counts its wait from the keeper's clock, which said when there is room.
func (e answerError) exceeded(now time.Time) error {
	out := &prices.QuotaExceededError{Labels: e.Details.Labels, OverageMicros: e.Details.Overage, DecidedAt: cmp.Or(e.Timestamp, now)}
	if at := e.Details.RetryAfter; at != nil {
		out.RetryAt = *at
	}
	return out
}

// transient are statuses after which the same request may succeed.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return status < http.StatusBadRequest // an answer of a proxy's, in the place of the keeper's
}

// retryAfter is how long an answer asks to wait: in seconds, or until a time.
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

// unavailable is the error of a call that got no answer.
func unavailable(op string, err error, unconfirmed bool, after time.Duration) error {
	var known *fault.UnavailableError
	if errors.As(err, &known) {
		return err
	}
	return &fault.UnavailableError{Package: "budget", Op: op, Err: err, Unconfirmed: unconfirmed, RetryAfter: after}
}

// statuses are those that the codes of a batch's records come with.
var statuses = map[string]int{
	"UNAUTHORIZED": http.StatusUnauthorized, "FORBIDDEN": http.StatusForbidden, "NOT_FOUND": http.StatusNotFound,
	"IDEMPOTENCY_CONFLICT": http.StatusConflict, "CONCURRENT_MODIFICATION": http.StatusConflict,
	"QUOTA_EXCEEDED": http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED": http.StatusTooManyRequests,
	"INTERNAL_ERROR": http.StatusInternalServerError, "SERVICE_UNAVAILABLE": http.StatusServiceUnavailable,
}

// ofRecord is the error of one record of a batch.
func (e answerError) ofRecord(now time.Time) error {
	status := cmp.Or(statuses[e.Code], http.StatusBadRequest)
	if status >= http.StatusInternalServerError {
		return unavailable("SubmitBatch", fmt.Errorf("%s: %s", e.Code, e.Message), true, 0)
	}
	return e.refusal("SubmitBatch", status, now)
}
