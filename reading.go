package dynalimit

import (
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// levelReading is the last answer of a level. Its statuses are made from it.
type levelReading struct {
	entity, resource string
	plan.Reading
	// precedence is what went before the take that the level denied.
	precedence plan.Precedence
	// degraded means that the reading is not the bucket's answer, but the process's
	// share or an old image.
	degraded bool
}

// readingOf is what a lane's result shows of the bucket; ok is false if it shows
// nothing.
func readingOf(at *lane.Lane, r *lane.Result) (reading levelReading, ok bool) {
	if r.Err != nil || r.Config == nil {
		return reading, false
	}
	return levelReading{
		entity: at.Entity, resource: at.Resource, Reading: plan.Reading{Image: r.Image, Config: r.Config, Now: r.Now},
		precedence: r.Before, degraded: r.Degraded,
	}, true
}
