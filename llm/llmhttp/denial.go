package llmhttp

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/refusal"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/dialect"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/mark"
)

// answerRefused returns the answer to an error of admission in the provider's shape: 429, 403, 401, 503 or
// another status. It returns the error itself if the request's context has ended. It logs errors that are
// mistakes of the operator, as 404 or 500.
func (a *attempt) answerRefused(err error) (*http.Response, error) {
	ctx := a.request.Context()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // the caller has left
		return nil, err
	}
	if denial, ok := errors.AsType[*llm.DeniedError](err); ok {
		return a.answerDenied(denial), nil
	}
	if wrong, ok := errors.AsType[*dynalimit.ValidationError](err); ok && strings.HasPrefix(wrong.Field, "estimate.") {
		return a.answerStatus(http.StatusBadRequest, "the call cannot be bounded: "+wrong.Field+" "+wrong.Reason), nil
	}
	if errors.Is(err, llm.ErrNoPrice) {
		a.transport.opts.Logger.LogAttrs(ctx, slog.LevelError, "llmhttp: a model has no price, and money is limited", slog.String("model", a.model), slog.Any("error", err))
		return a.answerStatus(http.StatusNotFound, "the model "+quoteText(a.model)+" has no price here, and money is limited: it is not served"), nil
	}
	told := a.caller.Refuse(err)
	switch told.Kind { //nolint:exhaustive // the others are denials, or mistakes
	case refusal.Unrecorded:
		return a.answerStatus(http.StatusUnauthorized, told.Detail), nil
	case refusal.Forbidden:
		return a.answerStatus(http.StatusForbidden, told.Detail), nil
	case refusal.Passing:
		answer := dialect.Refusal{Status: http.StatusServiceUnavailable, Message: told.Detail, Wait: told.RetryAfter, Again: a.retriesSoon(told.RetryAfter)}
		if errors.Is(err, dynalimit.ErrUnavailable) {
			answer.Again = false // the limiter has used its whole Timeout: retries of the SDK would wait in vain
		}
		return a.answerMarked(answer, err), nil
	}
	a.transport.opts.Logger.LogAttrs(ctx, slog.LevelError, "llmhttp: a call could not be limited", slog.Any("error", err))
	return a.answerStatus(http.StatusInternalServerError, "the call cannot be limited"), nil
}

// answerDenied returns the answer to a denial, with a mark for DenialOf: 429 with the wait, or 403 for a
// blocked entity. With Options.Headers it shows the caller's limit. It asks an SDK to retry only if that soon
// helps.
func (a *attempt) answerDenied(denial *llm.DeniedError) *http.Response {
	answer := dialect.Refusal{Status: http.StatusTooManyRequests, Wait: -1}
	if wait, ok := denial.RetryIn(); ok {
		answer.Wait = max(wait, time.Millisecond)
		answer.Again = a.retriesSoon(answer.Wait)
	}
	switch told := a.caller.Refuse(denial); {
	case errors.Is(denial, dynalimit.ErrPaused):
		answer.Message = "the provider has reached a limit of its own"
	case told.Kind == refusal.Blocked:
		answer.Status, answer.Message = http.StatusForbidden, told.Detail
	case told.Kind == refusal.Exceeded:
		answer.Message = told.Detail
	default:
		answer.Message = "the budget is used up"
	}
	res := a.answerMarked(answer, denial)
	if exceeded, ok := errors.AsType[*dynalimit.LimitExceededError](denial); ok && a.transport.opts.Headers {
		showLimit(res.Header, a.caller, exceeded.Statuses)
	}
	return res
}

// retrySoon is the longest wait that an SDK may handle. Longer waits are the caller's decision.
const retrySoon = 5 * time.Second

// retriesSoon reports whether an SDK's retry helps: the wait is at most 5 s, and ends before the request's
// deadline.
func (a *attempt) retriesSoon(wait time.Duration) bool {
	deadline, ok := a.request.Context().Deadline()
	return wait <= retrySoon && (!ok || wait < time.Until(deadline))
}

// answerMarked returns an answer that carries err, encoded as a mark, in its message and header, for DenialOf
// and UnavailableOf. For an error that has no mark it is a plain answer.
func (a *attempt) answerMarked(answer dialect.Refusal, err error) *http.Response {
	m := mark.Encode(err)
	if m == "" {
		return a.answerRefusal(answer)
	}
	answer.Message += " (" + m + ")"
	res := a.answerRefusal(answer)
	res.Header.Set(refusalHeader, m)
	return res
}

// answerStatus returns the transport's own answer with a status and a message, in the provider's shape and
// without a retry time. It closes the request's body.
func (a *attempt) answerStatus(status int, message string) *http.Response {
	return a.answerRefusal(dialect.Refusal{Status: status, Message: message})
}

// answerRefusal returns the transport's own answer to the attempt, in the shape of its provider. It closes the
// request's body.
func (a *attempt) answerRefusal(refusal dialect.Refusal) *http.Response {
	return ownAnswer(a.request, a.route.Shape, refusal)
}

// ownAnswer returns an answer that the transport makes itself, in the shape of the provider's errors. It
// closes the request's body.
func ownAnswer(r *http.Request, shape *dialect.Shape, refusal dialect.Refusal) *http.Response {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	refusal.Stainless = r.Header.Get("X-Stainless-Lang") != ""
	status, header, body := shape.Answer(refusal)
	return &http.Response{
		StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// quoteText returns a text of a client for use in a message: in quotes, in ASCII, and cut after 64 bytes.
func quoteText(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.QuoteToASCII(s)
}
