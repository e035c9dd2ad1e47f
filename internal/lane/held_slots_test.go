package lane

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Ends of calls of unknown buckets end slots that were counted late, and no more, because a call may have been counted
// as tokens when it began.
func TestLateEndsEndLateSlotsAlone(t *testing.T) {
	slots := func(n int64) []plan.Signed { return []plan.Signed{{Name: "inflight", Amount: n * 1000}} }
	cfg := &plan.Config{Slots: true, Limits: []schema.Limit{{Name: "inflight", Rate: bucket.Slots(5000, 60_000)}}}
	s := heldSlots{cfg: cfg}
	s.endLate(slots(1), 2)
	assert.Empty(t, s.Limits, "nothing was counted late")
	s.countBegun(slots(2), 2)
	s.endLate(slots(1), 3)
	assert.EqualValues(t, 2000, s.openSlots("inflight"))
	s.beginLate(slots(1), 4)
	assert.EqualValues(t, 3000, s.openSlots("inflight"))
	s.endLate(slots(3), 5)
	assert.EqualValues(t, 2000, s.openSlots("inflight"))
	assert.False(t, s.hasLate("inflight"))
}
