package fault

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

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
