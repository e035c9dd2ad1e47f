package budget

import (
	"context"
	"time"
)

// Health is whether the store answers, and what waits for it.
type Health struct {
	// Ready says that calls can be served: the store answers, or OnUnavailable
	// lets Recommend go on without it.
	Ready bool
	// Open says that the store does not answer, since Since, because of Cause. It
	// is probed in the background; the next probe is at NextProbe.
	Open      bool
	Since     time.Time // zero while it answers
	Cause     error     // nil while it answers
	NextProbe time.Time // zero while it answers
	// Queued is how many operations wait in this process to be written, Spooled
	// how many records wait in the spool.
	Queued, Spooled int
	// SpoolBytes is the size of the spool; at Options.SpoolBytes it takes no more.
	SpoolBytes int64
}

// patience bounds a call's use of the store.
func (o Options) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, o.Timeout)
}
