package denials

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestMisuseIsSaid: every call without a context, or of what was never made.
func TestMisuseIsSaid(t *testing.T) {
	db := ddbmem.New()
	t.Cleanup(db.Close)
	r, err := New(db.Client(), "limits", nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close(context.WithoutCancel(t.Context())) })
	var nobody context.Context
	for field, calls := range map[string][]func() error{
		"ctx":      {func() error { return r.Flush(nobody) }, func() error { return r.Close(nobody) }},
		"recorder": {func() error { return (*Recorder)(nil).Flush(t.Context()) }, func() error { return new(Recorder).Close(t.Context()) }},
		"options.Retention": {func() error {
			_, err := New(db.Client(), "limits", &Options{Retention: math.MaxInt64})
			return err
		}},
		"options.Interval": {func() error {
			_, err := New(db.Client(), "limits", &Options{Interval: math.MaxInt64})
			return err
		}},
	} {
		for i, call := range calls {
			var invalid *dynalimit.ValidationError
			require.ErrorAs(t, call(), &invalid, "%s %d", field, i)
			assert.Equal(t, field, invalid.Field)
		}
	}
	assert.Zero(t, (*Recorder)(nil).Stats())
	assert.Zero(t, new(Recorder).Stats())
	assert.Zero(t, db.Meter().Requests())
}

// TestRecorderThatWasNotMade: a limiter that it observes serves calls as without an observer,
// and nothing is counted.
func TestRecorderThatWasNotMade(t *testing.T) {
	withTable(t, Options{}, func(t *table) {
		for _, r := range []*Recorder{new(Recorder), nil} {
			limiter, err := dynalimit.New(t.repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", 1)}, Observer: r})
			require.NoError(t, err)
			one := dynalimit.Amounts{"rpd": 1}
			require.NotPanics(t, func() {
				_, _ = limiter.Acquire(t.Context(), "key-1", "gpt-4", one)
				_, err = limiter.Acquire(t.Context(), "key-1", "gpt-4", one)
			})
			require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
			r.AvailabilityChanged(dynalimit.AvailabilityChange{})
			r.PacingChanged(dynalimit.PacingChange{})
			assert.Zero(t, r.Stats())
			require.NoError(t, limiter.Close(t.Context()))
		}
	})
}

// pointing is an observer that is a pointer.
type pointing struct{ dynalimit.NopObserver }

// TestErrorOfNothing: an observer that is a nil pointer is none, and an error that is one
// denies nothing.
func TestErrorOfNothing(t *testing.T) {
	withTable(t, Options{Next: (*pointing)(nil)}, func(t *table) {
		t.recorder.AcquireEnd(t.Context(), dynalimit.AcquireEnd{Err: (*dynalimit.LimitExceededError)(nil)})
		t.recorder.AcquireEnd(t.Context(), dynalimit.AcquireEnd{Err: errors.New("no")})
		assert.Zero(t, t.recorder.Stats())
	})
}

// TestClosedTwice: the second Close has nothing to do, and what is denied after is lost.
func TestClosedTwice(t *testing.T) {
	withTable(t, Options{}, func(t *table) {
		require.NoError(t, t.recorder.Close(t.Context()))
		require.NoError(t, t.recorder.Close(t.Context()))
		denied := &dynalimit.LimitExceededError{Statuses: []dynalimit.LimitStatus{{EntityID: "u", Resource: "gpt-4", Limit: dynalimit.PerDay("rpm", 1), Exceeded: true}}}
		t.recorder.AcquireEnd(t.Context(), dynalimit.AcquireEnd{Err: denied})
		assert.Equal(t, Stats{Counted: 1, Lost: 1}, t.recorder.Stats())
		<-time.After(time.Hour) // no timer writes any more
		assert.Zero(t, t.db.Meter().Operations["UpdateItem"].Requests)
	})
}
