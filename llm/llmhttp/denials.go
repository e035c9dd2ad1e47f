package llmhttp

import (
	"errors"
	"net/http"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/mark"
)

// DenialOf finds why a call was denied in the error that an SDK made of the answer, or in one of
// this package: dynalimit.LimitExceededError, dynalimit.PausedError, dynalimit.BlockedError and
// prices.QuotaExceededError are found in it by errors.As. It reads a mark in the message of the error,
// or in the JSON that the error keeps, and so finds each denial of this process, however many there
// are. Of the statuses of a limit's denial the mark has those that deny.
func DenialOf(err error) (*llm.DeniedError, bool) { return find[*llm.DeniedError](err) }

// UnavailableOf finds, in the error that an SDK made of the answer, that the limits could not be
// asked: DynamoDB did not answer and the policy is Block, as it is for money. RetryIn of the result is
// the time until DynamoDB is asked again. It is false for an error of the provider, a 503 too.
func UnavailableOf(err error) (*dynalimit.UnavailableError, bool) {
	return find[*dynalimit.UnavailableError](err)
}

// find finds an error of a type in the tree of an error, or in the mark of its text.
func find[T error](err error) (found T, ok bool) {
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

// answered is an error of the SDKs of OpenAI and Anthropic. That of OpenAI keeps the answer out
// of its message.
type answered interface {
	error
	RawJSON() string
}

// Denial is why an answer of a Transport denies a call, as DenialOf; false for any other answer.
func Denial(res *http.Response) (*llm.DeniedError, bool) { return findIn[*llm.DeniedError](res) }

// Unavailable says that an answer of a Transport is a 503 of its own, as UnavailableOf; false for any
// other answer, a 503 of the provider too.
func Unavailable(res *http.Response) (*dynalimit.UnavailableError, bool) {
	return findIn[*dynalimit.UnavailableError](res)
}

func findIn[T error](res *http.Response) (none T, ok bool) {
	if res == nil {
		return none, false
	}
	return errors.AsType[T](mark.Find(res.Header.Get(refusalHeader)))
}

const refusalHeader = "X-Dynalimit-Refusal"
