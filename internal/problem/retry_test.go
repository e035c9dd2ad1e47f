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
