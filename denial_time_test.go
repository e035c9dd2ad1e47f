package dynalimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The wait of a denial counts from when the last level had decided, however long
// before it the others did.
func TestDenialWaitsFromTheLastDecision(t *testing.T) {
	of := func(name string, now, used int64) level {
		cfg := newBucketConfig([]Limit{PerSecond(name, 10)}, LevelEntity, false, 0, 0)
		image := &schema.Image{
			HasRefilled: true, Refilled: now, Set: schema.NewLimitSets().Of([]string{name}),
			Limits: []schema.Stored{{Rate: cfg.Limits[0].Rate, Capacity: 10 * milli, Tokens: 10*milli - used}},
		}
		l := &lane.Lane{Entity: name, Resource: model}
		return level{lane: l, cfg: cfg, asked: []plan.Signed{{Name: name, Amount: 10 * milli}}, answered: true, last: levelReading{entity: name, resource: model, Reading: plan.Reading{Image: image, Config: cfg, Now: now}}}
	}
	lease := &Lease{levels: []level{of("a", 1000, 5*milli), of("b", 1450, milli/2), of("c", 1200, milli)}}
	denied := lease.denial()
	assert.Equal(t, 50*time.Millisecond, denied.RetryAfter, "of which 450 ms of the longest are over")
	waits := []time.Duration{denied.Statuses[0].RetryAfter, denied.Statuses[1].RetryAfter, denied.Statuses[2].RetryAfter}
	assert.Equal(t, []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, time.Millisecond}, waits, "a level that denied waits for something")
}
