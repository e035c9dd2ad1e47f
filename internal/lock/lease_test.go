package lock

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestALeaseIsFreeOnceItsEndHasPassedByAMargin(t *testing.T) {
	stored := schema.Lease{Holder: "ann", Token: "a", Fence: 7, Until: noon.UnixMilli()}
	for name, test := range map[string]struct {
		stored schema.Lease
		now    time.Time
		free   bool
	}{
		"nobody ever":  {schema.Lease{}, noon, true},
		"before":       {stored, noon.Add(-time.Hour), false},
		"at its end":   {stored, noon, false},
		"just before":  {stored, noon.Add(Margin - time.Millisecond), false},
		"at last":      {stored, noon.Add(Margin), true},
		"released":     {schema.Lease{Holder: "ann", Fence: 7, Until: noon.Add(time.Hour).UnixMilli()}, noon, true},
		"years before": {stored, noon.AddDate(-50, 0, 0), false},
	} {
		next, free := taken(test.stored, "ben", "b", test.now, time.Minute)
		assert.Equal(t, test.free, free, name)
		if free {
			assert.Equal(t, schema.Lease{Holder: "ben", Token: "b", Fence: test.now.UnixMilli(), Until: test.now.Add(time.Minute).UnixMilli()}, next, name)
		}
	}
	ahead := schema.Lease{Fence: noon.Add(time.Hour).UnixMilli()}
	next, _ := taken(ahead, "ben", "b", noon, time.Minute)
	assert.Equal(t, ahead.Fence+1, next.Fence, "a fence rises, whatever the clock says")
}

// Whoever holds a lease stops before its end, and has time for another try before.
func TestAHoldEndsBeforeTheLease(t *testing.T) {
	for _, hold := range []time.Duration{ShortestHold, time.Minute, LongestHold} {
		assert.Less(t, renewAfter(hold)+2*retryAfter(hold), endsAfter(hold))
		assert.Less(t, endsAfter(hold), hold)
	}
}

func TestErrorsSayWhoAndUntilWhen(t *testing.T) {
	held := &fault.HeldError{Name: "manifest", Holder: "ann", Until: noon}
	assert.EqualError(t, held, `dynalimit: "manifest" is held by ann until 2026-01-02 12:00:00 UTC, unless it is renewed; try again then, or wait for it`)
	assert.ErrorIs(t, held, fault.ErrHeld)
	assert.NotErrorIs(t, held, fault.ErrLost)
	assert.ErrorContains(t, &fault.HeldError{}, "held by somebody")
	why := errors.New("down")
	lost := &fault.LostError{Name: "manifest", Err: why}
	assert.EqualError(t, lost, `dynalimit: no longer alone at "manifest": the hold could not be renewed in time: down; look at what was done, and begin again`)
	assert.ErrorIs(t, lost, fault.ErrLost)
	assert.ErrorIs(t, lost, why)
	assert.ErrorContains(t, &fault.LostError{Holder: "ann"}, ": ann took it;")
	assert.ErrorContains(t, &fault.LostError{}, ": somebody else took it;")
}
