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

// RetryAfter returns how long to wait before the call that failed with err can
// succeed: the longest wait among the errors it wraps or joins. It is false when
// none of them knows, or when no wait can help.
func RetryAfter(err error) (time.Duration, bool) {
	wait, known := longestWait(err)
	if wait == never {
		return 0, false
	}
	return wait, known
}

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

// Seconds is a wait as Retry-After has it: whole seconds, not too short.
func Seconds(d time.Duration) string {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}
