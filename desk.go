package dynalimit

import (
	"cmp"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/store"
	"github.com/dynalimit/dynalimit/observe"
)

// desk is the shared state of a limiter's calls and leases. Only settling changes.
type desk struct {
	routes   *routes
	lanes    *lane.Registry
	table    availability
	buckets  *store.Buckets
	transact store.Transact // buckets.Transact, but in tests
	clock    func() time.Time
	ownClock bool // which is not the repository's
	machine  bool // the repository's clock is the machine's own
	// stopwatch measures durations. It is the uncorrected clock, because a correction is a step.
	stopwatch func() time.Time
	observer  observe.Observer
	// hearsAcquires means that the observer has a function for acquires or denials.
	hearsAcquires bool
	// share, timeout, cleanup and mode are the LocalShare, Timeout, CleanupTimeout and ChargeMode of
	// Options.
	share            float64
	timeout, cleanup time.Duration
	mode             ChargeMode
	// settling are the leases that SettleSoon settles.
	settling settlements
}

func (d *desk) nowMS() int64 { return d.clock().UnixMilli() }

// modeOf returns the charge mode of a request.
func (d *desk) modeOf(r *request) ChargeMode { return cmp.Or(r.opts.mode, d.mode) }

// serves reports whether a call may be served from stocks, if the limiter prefetches.
func (d *desk) serves(r *request, c *cascade) bool {
	return d.modeOf(r) != ChargeTransaction || len(c.rungs) < 2
}
