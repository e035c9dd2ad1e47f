package llmhttp

import (
	"errors"
	"net/http"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/mark"
)

// DenialOf finds the denial in the error that an SDK made of the answer, or in one of
// this package. errors.As finds dynalimit.LimitExceededError, dynalimit.PausedError, dynalimit.BlockedError and
// prices.QuotaExceededError in it. DenialOf reads a mark in the message of the error,
// or in the JSON that the error keeps, and so finds each denial of this process, however many there
// are. The mark has only the denying statuses of a limit's denial.
func DenialOf(err error) (*llm.DeniedError, bool) { return findError[*llm.DeniedError](err) }

// UnavailableOf finds the outage in the error that an SDK made of the answer: DynamoDB did not
// answer and the policy is Refuse, the default for money. RetryIn of the result is
// the time until the next probe of DynamoDB. It is false for an error of the provider, a 503 too.
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

// Denial finds the denial in an answer of a Transport, as DenialOf; it is false for any other answer.
func Denial(res *http.Response) (*llm.DeniedError, bool) { return findIn[*llm.DeniedError](res) }

// Unavailable finds the outage in an answer of a Transport, as UnavailableOf; it is false for any
// other answer, a 503 of the provider too.
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
