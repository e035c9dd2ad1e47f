package dynalimit

import (
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// levelReading is the last answer of a level. Its statuses are made from it.
type levelReading struct {
	entity, resource string
	plan.Reading
	// precedence is the amounts of earlier takes and waiters, which the denied take had to leave.
	precedence plan.Precedence
	// degraded means that the reading is not the bucket's answer, but the process's
	// share or an old image.
	degraded bool
}

// readingOf returns the bucket's state in a lane's result. ok is false if the result shows no bucket.
func readingOf(at *lane.Lane, r *lane.Result) (reading levelReading, ok bool) {
	if r.Err != nil || r.Config == nil {
		return reading, false
	}
	return levelReading{
		entity: at.Entity, resource: at.Resource, Reading: plan.Reading{Image: r.Image, Config: r.Config, Now: r.Now},
		precedence: r.Before, degraded: r.Degraded,
	}, true
}
