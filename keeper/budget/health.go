package budget

import (
	"context"
	"time"
)

// Health is the state of the store, and the amount of pending work.
type Health struct {
	// Ready is true if calls can be served: the store answers, or OnUnavailable lets Recommend
	// continue without it.
	Ready bool
	// Open is true if the store has not answered since Since, with Cause as the first error.
	// The keeper probes it in the background, next at NextProbe.
	Open      bool
	Since     time.Time // zero while it answers
	Cause     error     // nil while it answers
	NextProbe time.Time // zero while it answers
	// Queued is the number of operations in this process's queues, Spooled the number of
	// records in the spool.
	Queued, Spooled int
	// SpoolBytes is the size of the spool. At Options.SpoolBytes it accepts no more records.
	SpoolBytes int64
}

// withTimeout returns a context that ends Options.Timeout from now, or with ctx, to bound a call's use of the
// store. The caller must call the cancel function.
func (o Options) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, o.Timeout)
}
