// Package wire defines the bodies of the REST API, and converts them from and to the types of
// package budget.
package wire

import (
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

// Code is the code of an error. The set is closed.
type Code string

// The codes with their HTTP statuses.
const (
	InvalidRequest         Code = "INVALID_REQUEST"         // 400, 405, 408, 415
	InvalidConfig          Code = "INVALID_CONFIG"          // 400
	InvalidModelLabel      Code = "INVALID_MODEL_LABEL"     // 400
	Unauthorized           Code = "UNAUTHORIZED"            // 401
	Forbidden              Code = "FORBIDDEN"               // 403
	NotFound               Code = "NOT_FOUND"               // 404
	IdempotencyConflict    Code = "IDEMPOTENCY_CONFLICT"    // 409
	ConcurrentModification Code = "CONCURRENT_MODIFICATION" // 409
	PayloadTooLarge        Code = "PAYLOAD_TOO_LARGE"       // 413
	QuotaExceeded          Code = "QUOTA_EXCEEDED"          // 429
	RateLimitExceeded      Code = "RATE_LIMIT_EXCEEDED"     // 429
	InternalError          Code = "INTERNAL_ERROR"          // 500
	ServiceUnavailable     Code = "SERVICE_UNAVAILABLE"     // 503
)

// Error is the body of every error response.
type Error struct {
	Code      Code      `json:"error" enum:"INVALID_REQUEST,INVALID_CONFIG,INVALID_MODEL_LABEL,UNAUTHORIZED,FORBIDDEN,NOT_FOUND,IDEMPOTENCY_CONFLICT,CONCURRENT_MODIFICATION,PAYLOAD_TOO_LARGE,QUOTA_EXCEEDED,RATE_LIMIT_EXCEEDED,INTERNAL_ERROR,SERVICE_UNAVAILABLE" doc:"What is wrong, for programs"`
	Message   string    `json:"message" doc:"What is wrong, for people" example:"the token is of another organisation or app"`
	Details   Details   `json:"details" doc:"What more there is to know; an empty object if nothing"`
	Timestamp time.Time `json:"timestamp" doc:"When the answer was made"`
	RequestID string    `json:"request_id" doc:"The id of this request, as in the header X-Request-Id and in the server's log"`

	status  int
	headers http.Header
}

// Details is the details of an error.
type Details struct {
	Fields                []FieldError         `json:"fields,omitempty" nullable:"false" doc:"The fields at fault"`
	RetryAfter            time.Time            `json:"retry_after,omitzero" doc:"When there may be room again"`
	Labels                []prices.LabelStatus `json:"labels,omitempty" nullable:"false" doc:"Where every label asked about stands"`
	TotalOverageUSDMicros *int64               `json:"total_overage_usd_micros,omitempty" doc:"What was spent beyond the quotas, in all"`
}

// FieldError is one invalid field.
type FieldError struct {
	Field  string `json:"field" doc:"Which field" example:"tokens.input"`
	Reason string `json:"reason" doc:"What is wrong with it" example:"expected number >= 0"`
}

// NewError returns an error with its HTTP status.
func NewError(status int, code Code, message string) *Error {
	return &Error{Code: code, Message: message, status: status}
}

// With sets a header of the response and returns e.
func (e *Error) With(name, value string) *Error {
	if e.headers == nil {
		e.headers = http.Header{}
	}
	e.headers.Set(name, value)
	return e
}

// Field adds an invalid field to the details of the error, in place, and returns e.
func (e *Error) Field(field, reason string) *Error {
	e.Details.Fields = append(e.Details.Fields, FieldError{field, reason})
	return e
}

// Error returns the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// GetStatus returns the HTTP status.
func (e *Error) GetStatus() int { return e.status }

// GetHeaders returns the response headers.
func (e *Error) GetHeaders() http.Header { return e.headers }
