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
)

// DenialOf finds why a call was denied in the error that an SDK made of the answer, or in one of
// this package: dynalimit.LimitExceededError, dynalimit.PausedError and budget.QuotaExceededError are
// found in it by errors.As. It knows the last 1,024 denials of this process, by a mark in their
// messages or in the JSON that they keep.
func DenialOf(err error) (*llm.DeniedError, bool) {
	if err == nil {
		return nil, false
	}
	if denial, ok := errors.AsType[*llm.DeniedError](err); ok {
		return denial, true
	}
	if denial, ok := denials.find(err.Error()); ok {
		return denial, true
	}
	if answered, ok := errors.AsType[answered](err); ok {
		return denials.find(answered.RawJSON())
	}
	return nil, false
}

// answered is an error of the SDKs of OpenAI and Anthropic. That of OpenAI keeps the answer out
// of its message.
type answered interface {
	error
	RawJSON() string
}

// Denial is why an answer of a Transport denies a call; false for any other answer.
func Denial(res *http.Response) (*llm.DeniedError, bool) {
	if res == nil {
		return nil, false
	}
	return denials.find(res.Header.Get(denialHeader))
}

const denialHeader = "X-Dynalimit-Denial"

// deny answers a call that is not admitted; its error is the context's own, if that has ended.
func (a *attempt) deny(err error) (*http.Response, error) {
	ctx := a.request.Context()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // nobody waits any longer
		return nil, err
	}
	if denial, ok := errors.AsType[*llm.DeniedError](err); ok {
		return a.denied(denial), nil
	}
	if wrong, ok := errors.AsType[*dynalimit.ValidationError](err); ok && strings.HasPrefix(wrong.Field, "estimate.") {
		return a.refuse(http.StatusBadRequest, "the call cannot be bounded: "+wrong.Field+" "+wrong.Reason), nil
	}
	if errors.Is(err, llm.ErrNoPrice) {
		a.transport.opts.Logger.LogAttrs(ctx, slog.LevelError, "llmhttp: a model has no price, and money is limited", slog.String("model", a.model), slog.Any("error", err))
		return a.refuse(http.StatusNotFound, "the model "+quoted(a.model)+" has no price here, and money is limited: it is not served"), nil
	}
	if told := a.caller.Refuse(err); told.Kind == refusal.Passing {
		return a.answer(dialect.Refusal{Status: http.StatusServiceUnavailable, Message: told.Detail, Wait: told.RetryAfter}), nil
	}
	a.transport.opts.Logger.LogAttrs(ctx, slog.LevelError, "llmhttp: a call could not be limited", slog.Any("error", err))
	return a.refuse(http.StatusInternalServerError, "the call cannot be limited"), nil
}

// denied answers a call that does not fit.
func (a *attempt) denied(denial *llm.DeniedError) *http.Response {
	mark := denials.keep(denial)
	answer := dialect.Refusal{Status: http.StatusTooManyRequests, Wait: -1}
	if wait, ok := denial.RetryIn(); ok {
		answer.Wait = max(wait, time.Millisecond)
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
	answer.Message += " (" + mark + ")"
	res := a.answer(answer)
	if exceeded, ok := errors.AsType[*dynalimit.LimitExceededError](denial); ok && a.transport.opts.Headers {
		show(res.Header, a.caller, exceeded.Statuses)
	}
	res.Header.Set(denialHeader, mark)
	return res
}

// refuse answers with a status and a message.
func (a *attempt) refuse(status int, message string) *http.Response {
	return a.answer(dialect.Refusal{Status: status, Message: message})
}

func (a *attempt) answer(refusal dialect.Refusal) *http.Response {
	return refused(a.request, a.route.Shape, refusal)
}

// refused is an answer that no provider gave, in the shape of one.
func refused(r *http.Request, shape *dialect.Shape, refusal dialect.Refusal) *http.Response {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	status, header, body := shape.Answer(refusal)
	return &http.Response{
		StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// quoted is what a client wrote, for a message: cut, and without what could be markup.
func quoted(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.QuoteToASCII(s)
}
