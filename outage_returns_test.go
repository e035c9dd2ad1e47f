package dynalimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// What is to be given back for a caller who has gone is kept while the bucket does
// not answer.
func TestGrantOfACallerWhoHasGoneIsGivenBackAfterAnOutage(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		lease := s.acquire(userOf(0), Amounts{"rpm": 5})
		l := s.limiter.lanes.Of(userOf(0), model)
		s.down(ddbmem.Fault{Drop: true})
		s.acquire(userOf(0), Amounts{"rpm": 1})
		require.True(t, l.Away())
		take := lane.NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 5 * milli}}, lease.levels[0].cfg)
		l.Submit(l.Returning(take, lane.Result{Image: l.Image()}))
		assert.Equal(t, 1, s.limiter.Health().OwedBuckets)
		s.recovers()
		elapse(time.Second)
		charged, doubt := s.consumed(1, "rpm"), s.limiter.Health().Doubt["rpm"]
		assert.LessOrEqual(t, charged, int64(1))
		assert.GreaterOrEqual(t, charged+doubt, int64(1))
	})
}
