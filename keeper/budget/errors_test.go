package budget

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/prices"
)

func TestQuotaSaysHowLongToWait(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	for _, label := range fixtureOrg().Ordering {
		w.spend(appA, label, 1_000_000_000)
	}
	w.clock.Advance(time.Minute)
	_, err := w.a.Recommend(t.Context(), orgO, appA)
	require.ErrorIs(t, err, prices.ErrQuotaExceeded)
	var exceeded *prices.QuotaExceededError
	require.ErrorAs(t, err, &exceeded)
	wait, ok := problem.RetryAfter(fmt.Errorf("call: %w", err))
	assert.True(t, ok)
	assert.Equal(t, exceeded.RetryAt.Sub(w.clock.Now()), wait, "from the decision, whatever clock the process has")
	w.clock.Advance(48 * time.Hour)
	later, _ := problem.RetryAfter(err)
	assert.Equal(t, wait, later)
}

func TestNegativeDurationIsNamed(t *testing.T) {
	for field, opts := range map[string]Options{
		"options.staleness":       {Staleness: -1},
		"options.config_ttl":      {ConfigTTL: -1},
		"options.linger":          {Linger: -1},
		"options.spool_interval":  {SpoolInterval: -1},
		"options.spool_bytes":     {SpoolBytes: -1},
		"options.request_timeout": {RequestTimeout: -1},
		"options.timeout":         {Timeout: -time.Second},
	} {
		_, err := New(ddbmem.New().Client(), Tables{}, &opts)
		var bad *fault.ValidationError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, field, bad.Field)
	}
}

// Callers see one error of an unavailable store, whatever part of the keeper it comes
// from, and all of several.
func TestErrorsOfTheLedgerAreTheKeepers(t *testing.T) {
	cause := errors.New("no route")
	lost := &fault.UnavailableError{Package: "budget", Op: "write", Err: cause, Unconfirmed: true, RetryAfter: time.Second}
	assert.Equal(t, error(lost), wrapFailure("Extend", lost))
	var u *fault.UnavailableError
	require.ErrorAs(t, asCallFailure("Submit", lost), &u)
	assert.Equal(t, fault.UnavailableError{Package: "budget", Op: "Submit", Err: cause, Unconfirmed: true, RetryAfter: time.Second}, *u)

	other := errors.New("malformed")
	many := wrapFailure("Sweep", errors.Join(other, lost))
	require.ErrorIs(t, many, other)
	require.ErrorAs(t, many, &u)
	require.NoError(t, wrapFailure("Sweep", nil))
	require.NoError(t, asCallFailure("Release", nil))
}
