package llmhttp

import (
	"errors"
	"net/http"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/mark"
)

// DenialOf returns the denial in err, an error that an SDK made of the answer or one of this package, and false
// without one. It reads a mark in the error's message or JSON, with only the denying statuses. In the result,
// errors.As finds dynalimit.LimitExceededError, PausedError, BlockedError and prices.QuotaExceededError.
func DenialOf(err error) (*llm.DeniedError, bool) { return findError[*llm.DeniedError](err) }

// UnavailableOf returns the outage in the error that an SDK made of the answer: DynamoDB did not answer and the
// policy is Refuse. RetryIn of the result is the time until the next probe of DynamoDB. It returns false for an
// error of the provider, a 503 too.
func UnavailableOf(err error) (*dynalimit.UnavailableError, bool) {
	return findError[*dynalimit.UnavailableError](err)
}

// findError returns the first error of type T in the tree of err, or the one in the mark of err's text or
// JSON. It returns false if there is neither.
func findError[T error](err error) (found T, ok bool) {
	if err == nil {
		return found, false
	}
	if found, ok = errors.AsType[T](err); ok {
		return found, true
	}
	refused := mark.Find(err.Error())
	if a, ok := errors.AsType[answered](err); ok && refused == nil {
		refused = mark.Find(a.RawJSON())
	}
	return errors.AsType[T](refused)
}

// answered is an error of the SDKs of OpenAI and Anthropic. OpenAI's leaves the answer out
// of its message.
type answered interface {
	error
	RawJSON() string
}

// Denial returns the denial in the header of a Transport's answer, as DenialOf does. It returns false for a nil
// or any other answer.
func Denial(res *http.Response) (*llm.DeniedError, bool) { return findIn[*llm.DeniedError](res) }

// Unavailable returns the outage in the header of a Transport's answer, as UnavailableOf does. It returns false
// for a nil or any other answer, a 503 of the provider too.
func Unavailable(res *http.Response) (*dynalimit.UnavailableError, bool) {
	return findIn[*dynalimit.UnavailableError](res)
}

// findIn returns the error of type T in the mark in an answer's header. It returns false for a nil answer or
// without such an error.
func findIn[T error](res *http.Response) (none T, ok bool) {
	if res == nil {
		return none, false
	}
	return errors.AsType[T](mark.Find(res.Header.Get(refusalHeader)))
}

const refusalHeader = "X-Dynalimit-Refusal"
