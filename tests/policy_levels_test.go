package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

// The policy is that of the most specific level that has one; a call's own comes first.
func TestPolicyOfTheMostSpecificLevel(t *testing.T) {
	for _, level := range []levels.Level{levels.System, levels.Resource, levels.PlanDefault, levels.Plan, levels.EntityDefault, levels.Entity} {
		t.Run(string(level), func(t *testing.T) {
			virtual(t, nil, func(t *testing.T, s *process) {
				s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
				s.says(ofSystem, schema.ConfigItem{OnUnavailable: "block", Limits: limited(dynalimit.Amounts{"rpm": 10}).Limits})
				c := schema.ConfigItem{OnUnavailable: "allow"}
				if level == levels.System {
					c.Limits = limited(dynalimit.Amounts{"rpm": 10}).Limits
				}
				s.says(ofLevel[level], c)
				s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
				report, err := s.limiter.Check(t.Context(), "user-1", model, nil)
				require.NoError(t, err)
				assert.Equal(t, dynalimit.Allow, report.OnUnavailable)
				s.down(ddbmem.Fault{Drop: true})
				for range 3 { // at first the bucket does not answer, then the table is known not to
					assert.True(t, s.acquire("user-1", dynalimit.Amounts{"rpm": 1}).Degraded())
					elapse(5 * time.Second)
				}
				require.True(t, s.limiter.Health().Open)
				_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Block))
				require.ErrorIs(t, err, dynalimit.ErrUnavailable)
				assert.Equal(t, level == levels.System, s.limiter.Health().Ready, "Ready is about who has no policy of its own")
				s.recovers()
			})
		})
	}
}
