package problem

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// waits is an error that knows when to come back.
type waits time.Duration

func (waits) Error() string { return "come back later" }

func (w waits) RetryIn() (time.Duration, bool) {
	return time.Duration(w), w > 0 && w < math.MaxInt64
}

func TestRetryAfterIsTheLongestWait(t *testing.T) {
	const forever = waits(math.MaxInt64)
	plain := errors.New("plain")
	for _, test := range []struct {
		err  error
		want time.Duration
		ok   bool
	}{
		{nil, 0, false},
		{plain, 0, false},
		{waits(time.Second), time.Second, true},
		{waits(0), 0, false},
		{forever, 0, false},
		{fmt.Errorf("wrapped: %w", waits(time.Second)), time.Second, true},
		{errors.Join(plain, waits(time.Second), waits(3*time.Second)), 3 * time.Second, true},
		{fmt.Errorf("%w and %w", waits(2*time.Second), plain), 2 * time.Second, true},
		{errors.Join(waits(0), waits(time.Second)), time.Second, true},
		{errors.Join(waits(time.Second), fmt.Errorf("wrapped: %w", forever)), 0, false},
	} {
		got, ok := RetryAfter(test.err)
		assert.Equal(t, test.ok, ok, "%v", test.err)
		assert.Equal(t, test.want, got, "%v", test.err)
	}
}

// The errors of every package match ErrUnavailable, and say whose they are.
func TestErrorsNameTheirPackage(t *testing.T) {
	cause := errors.New("no route")
	lost := &UnavailableError{Op: "acquire", Err: cause, RetryAfter: time.Second}
	assert.ErrorIs(t, lost, ErrUnavailable)
	assert.ErrorIs(t, lost, cause)
	assert.Equal(t, "dynalimit: acquire: store unavailable: no route", lost.Error())
	assert.Equal(t, "budget: Submit: store unavailable (may have been applied): no route",
		(&UnavailableError{Package: "budget", Op: "Submit", Err: cause, Unconfirmed: true}).Error())
	assert.Equal(t, "llm: invalid estimate: is empty", (&ValidationError{Package: "llm", Field: "estimate", Reason: "is empty"}).Error())
	assert.Equal(t, "dynalimit: invalid limits: are none", (&ValidationError{Field: "limits", Reason: "are none"}).Error())
	assert.Equal(t, "INVALID_CONFIG", InvalidConfig.String())
}
