package problem

import (
	"math"
	"strconv"
	"time"
)

// never is the wait if no wait can help.
const never time.Duration = math.MaxInt64

// retryable is an error with a wait; ok is false if the wait is unknown,
// or if no wait can help (then it is the longest duration).
type retryable interface {
	error
	RetryIn() (time.Duration, bool)
}

// RetryAfter returns the wait after which the call that failed with err can succeed: the longest wait among the
// errors that it wraps or joins. It returns false if none of them knows a wait, or if no wait can help.
func RetryAfter(err error) (time.Duration, bool) {
	wait, known := longestWait(err)
	if wait == never {
		return 0, false
	}
	return wait, known
}

// longestWait returns the longest wait among err and the errors that it wraps or joins. known is false if none
// of them has a wait.
func longestWait(err error) (wait time.Duration, known bool) {
	if r, ok := err.(retryable); ok { //nolint:errorlint // the tree is walked here
		return r.RetryIn()
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Unwrap() error }:
		return longestWait(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			w, ok := longestWait(part)
			wait, known = max(wait, w), known || ok
		}
	}
	return wait, known
}

// RetryAfterText returns a wait as a text for the header Retry-After: whole seconds, rounded up.
func RetryAfterText(d time.Duration) string {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}
