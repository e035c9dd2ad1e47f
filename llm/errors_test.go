package llm_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

func TestRetryAfterHoldsForEveryError(t *testing.T) {
	limit := func(d time.Duration) error { return &dynalimit.LimitExceededError{RetryAfter: d} }
	plain := errors.New("plain")
	for _, test := range []struct {
		name string
		err  error
		want time.Duration
		ok   bool
	}{
		{"limit", limit(time.Second), time.Second, true},
		{"limit that never fits", limit(dynalimit.Never), 0, false},
		{"denied call", &llm.DeniedError{RetryAfter: 2 * time.Second, Err: limit(time.Second)}, 2 * time.Second, true},
		{"call that never fits", &llm.DeniedError{RetryAfter: dynalimit.Never, Err: limit(dynalimit.Never)}, 0, false},
		{"limiter's store", &dynalimit.UnavailableError{Err: plain, RetryAfter: 3 * time.Second}, 3 * time.Second, true},
		{"limiter's store, unknown", &dynalimit.UnavailableError{Err: plain}, 0, false},
		{"keeper's store", &fault.UnavailableError{Err: plain, RetryAfter: 4 * time.Second}, 4 * time.Second, true},
		{"keeper's store, unknown", &fault.UnavailableError{Err: plain}, 0, false},
		{"unsettled", &llm.UnsettledError{
			Lease: &dynalimit.UnavailableError{Err: plain, RetryAfter: time.Second}, Budget: &fault.UnavailableError{Err: plain, RetryAfter: 2 * time.Second},
		}, 2 * time.Second, true},
		{"quota of nobody's", &prices.QuotaExceededError{RetryAt: time.Now()}, 0, false},
		{"validation", &llm.ValidationError{}, 0, false},
		{"plain", plain, 0, false},
		{"none", nil, 0, false},
	} {
		for how, err := range map[string]error{
			"as is": test.err, "wrapped": fmt.Errorf("call: %w", test.err), "joined": errors.Join(plain, test.err),
			"joined and wrapped": fmt.Errorf("%w (%w)", plain, fmt.Errorf("call: %w", test.err)),
		} {
			if test.err == nil && how != "as is" {
				continue
			}
			wait, ok := dynalimit.RetryAfter(err)
			assert.Equal(t, test.ok, ok, "%s, %s", test.name, how)
			assert.Equal(t, test.want, wait, "%s, %s", test.name, how)
		}
	}
	wait, ok := dynalimit.RetryAfter(errors.Join(limit(time.Second), &fault.UnavailableError{Err: plain, RetryAfter: time.Minute}))
	assert.True(t, ok)
	assert.Equal(t, time.Minute, wait, "both must be over")
}
