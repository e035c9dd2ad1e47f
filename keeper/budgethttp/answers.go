package budgethttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/login"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/prices"
)

// answers gives every error the same shape, and logs causes that clients must not see.
type answers struct {
	now func() time.Time
	log *slog.Logger
}

// writeError sets the time and request id of e, and writes it to w as the whole JSON response, with e's headers
// and status. Handlers of huma return their errors instead.
func (a *answers) writeError(w *answer, x *exchange, e *wire.Error) {
	a.stampError(x, e)
	for name, values := range e.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	body, err := json.Marshal(e)
	if err != nil {
		a.logError(x, "unwritten", err)
	}
	w.WriteHeader(e.GetStatus())
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

// stampError sets the time and the request id of an error.
func (a *answers) stampError(x *exchange, e *wire.Error) {
	e.Timestamp, e.RequestID = a.now().UTC(), x.id
}

// logError logs, at level Error, an error that clients must not see, with the request's id and route.
func (a *answers) logError(x *exchange, what string, err error) {
	a.log.Error("budgethttp: "+what, "request_id", x.id, "route", x.route, "error", err.Error())
}

// errorResponse returns the response to a handler's error: a *wire.Error itself, else status 400, 401, 404,
// 409, 429 or 503, and 500 for unknown errors. It logs the cause of a 503 or 500. conflict is the route's code
// for ErrConflict.
func (a *answers) errorResponse(err error, x *exchange, conflict wire.Code) *wire.Error {
	var (
		shaped   *wire.Error
		bad      *fault.ValidationError
		exceeded *prices.QuotaExceededError
	)
	if e := cmp.Or(loginResponse(err), credentialsResponse(err)); e != nil {
		return e
	}
	switch {
	case errors.As(err, &shaped):
		return shaped
	case errors.As(err, &bad):
		return wire.NewError(http.StatusBadRequest, wire.Code(bad.Code.String()), bad.Field+": "+bad.Reason).Field(bad.Field, bad.Reason)
	case errors.As(err, &exceeded):
		return quotaExceeded(err, exceeded)
	case errors.Is(err, budget.ErrNotFound):
		return wire.NewError(http.StatusNotFound, wire.NotFound, "there is no such organisation or app")
	case errors.Is(err, budget.ErrConflict) && errors.As(err, new(*problem.Fixable)):
		return wire.NewError(http.StatusConflict, conflict, "it is being deleted: complete that with DELETE, then put it again")
	case errors.Is(err, budget.ErrConflict) && conflict == wire.ConcurrentModification:
		return wire.NewError(http.StatusConflict, conflict, "another request changed it: get it again, apply the change to that, and send it")
	case errors.Is(err, budget.ErrConflict):
		return wire.NewError(http.StatusConflict, conflict, "the id was used before, with other contents")
	case errors.Is(err, fault.ErrUnavailable), errors.Is(err, budget.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		a.logError(x, "unavailable", err)
		return wire.NewError(http.StatusServiceUnavailable, wire.ServiceUnavailable, "the store does not answer: send the same again").
			With("Retry-After", problem.RetryAfterText(retryAfter(err)))
	}
	return a.internalError(err, x)
}

// internalError returns the 500 response to an internal error, without the cause, which it logs.
func (a *answers) internalError(err error, x *exchange) *wire.Error {
	a.logError(x, "failed", err)
	return hiddenError(http.StatusInternalServerError)
}

// hiddenError returns the response with a status to an internal error. It contains no cause: only the log has
// it.
func hiddenError(status int) *wire.Error {
	return wire.NewError(status, wire.InternalError, "something went wrong; the log has it under this request_id")
}

// quotaExceeded returns the 429 response if no label has room: the labels, the overage in micro-dollars, and
// the instant to retry at. It sets Retry-After if err has a wait.
func quotaExceeded(err error, exceeded *prices.QuotaExceededError) *wire.Error {
	out := wire.NewError(http.StatusTooManyRequests, wire.QuotaExceeded, "no label has room left")
	out.Details.Labels = exceeded.Labels
	out.Details.TotalOverageUSDMicros = &exceeded.OverageMicros
	out.Details.RetryAfter = exceeded.RetryAt.UTC()
	if wait, ok := dynalimit.RetryAfter(err); ok {
		return out.With("Retry-After", problem.RetryAfterText(wait))
	}
	return out
}

// retryAfter returns the wait before a retry while the store does not answer, at least one second.
func retryAfter(err error) time.Duration {
	wait, _ := dynalimit.RetryAfter(err)
	return max(wait, time.Second)
}

// loginResponse returns the response to an error of a login: 401, or 429 with Retry-After after too many
// failures. It returns nil for any other error.
func loginResponse(err error) *wire.Error {
	var throttled *login.ThrottledError
	switch {
	case errors.Is(err, login.ErrUnauthorized):
		return wire.NewError(http.StatusUnauthorized, wire.Unauthorized, "the credentials, or the token, are not good").
			With("WWW-Authenticate", `Bearer realm="keeper"`)
	case errors.As(err, &throttled):
		return wire.NewError(http.StatusTooManyRequests, wire.RateLimitExceeded, "too many logins failed: wait").
			With("Retry-After", problem.RetryAfterText(max(throttled.RetryAfter, time.Second)))
	}
	return nil
}

// credentialsResponse returns the response to an error of package credentials: 401 for an invalid retrieval
// token, 404 for a used one or missing credentials, 409 for a conflict. It returns nil for any other error.
func credentialsResponse(err error) *wire.Error {
	switch {
	case errors.Is(err, credentials.ErrTokenInvalid):
		return wire.NewError(http.StatusUnauthorized, wire.Unauthorized, "the retrieval token is unknown, of somebody else or too old; nothing was consumed")
	case errors.Is(err, credentials.ErrTokenUsed):
		return wire.NewError(http.StatusNotFound, wire.NotFound, "the secret was fetched before: rotate for another")
	case errors.Is(err, credentials.ErrNotFound):
		return wire.NewError(http.StatusNotFound, wire.NotFound, "there are no such credentials")
	case errors.Is(err, credentials.ErrConflict):
		return wire.NewError(http.StatusConflict, wire.ConcurrentModification, "the credentials were changed by somebody else at the same time: nothing was written")
	}
	return nil
}

// shapeError converts a *huma.ErrorModel to a *wire.Error in JSON, with 422 as 400 and without details from 500
// on. It sets the time and request id of either. It returns other values unchanged, and never an error.
func (a *answers) shapeError(ctx huma.Context, _ string, v any) (any, error) {
	x := exchangeOf(ctx.Context())
	switch e := v.(type) {
	case *wire.Error:
		a.stampError(x, e)
	case *huma.ErrorModel:
		ctx.SetHeader("Content-Type", "application/json")
		found := make([]error, len(e.Errors))
		for i, d := range e.Errors {
			found[i] = d
		}
		out := validationError(e.Status, e.Detail, found)
		if code, ok := ctx.Operation().Metadata[invalidKey].(wire.Code); ok && code != "" && e.Status == http.StatusUnprocessableEntity {
			out.Code = code
		}
		a.stampError(x, out)
		return out, nil
	}
	return v, nil
}

// invalidKey is the key in an operation's metadata for the wire.Code of invalid values.
const invalidKey = "invalid"

const (
	maxFields = 16  // reported fields
	maxText   = 200 // bytes of a field's name, which the client may choose
)

// validationError returns the response to huma's validation errors, with at most 16 fields, sorted, and the
// first field's error, or else message, as its message. A status of 422 becomes 400, and from 500 on all
// details are hidden. It never contains values of the request.
func validationError(status int, message string, found []error) *wire.Error {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	if status >= http.StatusInternalServerError {
		return hiddenError(status)
	}
	var fields []wire.FieldError
	for _, err := range found {
		var field, reason string
		if d, ok := err.(huma.ErrorDetailer); ok { // its text contains the whole object, once for each of its names
			detail := d.ErrorDetail()
			field, reason = strings.TrimPrefix(detail.Location, "body."), detail.Message
		} else {
			reason = err.Error()
		}
		fields = append(fields, wire.FieldError{Field: shorten(field), Reason: shorten(reason)})
	}
	slices.SortStableFunc(fields, func(a, b wire.FieldError) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Reason, b.Reason))
	})
	if len(fields) > 0 {
		message = strings.TrimPrefix(fields[0].Field+": "+fields[0].Reason, ": ")
	}
	out := wire.NewError(status, wire.InvalidRequest, message)
	out.Details.Fields = fields[:min(len(fields), maxFields)]
	return out
}

// shorten returns a text that a client sent, cut to maxText bytes and with an ellipsis if it is longer.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
