package dynalimit

import (
	"cmp"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/store"
	"github.com/dynalimit/dynalimit/observe"
)

// desk is what the calls of a limiter are charged with, and what its leases are corrected
// with. All but settling never changes.
type desk struct {
	routes   *routes
	lanes    *lane.Registry
	table    availability
	buckets  *store.Buckets
	transact store.Transact // buckets.Transact, but in tests
	clock    func() time.Time
	ownClock bool // which is not the repository's
	machine  bool // the repository's clock is the machine's own
	// stopwatch is what durations are measured by: the clock before it is corrected, which is a step.
	stopwatch func() time.Time
	observer  observe.Observer
	// hearsAcquires means that the observer hears of acquires or denials.
	hearsAcquires bool
	// share, timeout, cleanup and mode are Options' LocalShare, Timeout, CleanupTimeout
	// and Cascade.
	share            float64
	timeout, cleanup time.Duration
	mode             ChargeMode
	// settling are the leases that SettleSoon settles.
	settling settlements
}

func (d *desk) nowMS() int64 { return d.clock().UnixMilli() }

// modeOf says how the levels of a request are charged.
func (d *desk) modeOf(r *request) ChargeMode { return cmp.Or(r.opts.mode, d.mode) }

// serves reports whether a call may be served from what lanes debited ahead, if the limiter prefetches.
func (d *desk) serves(r *request, c *cascade) bool {
	return d.modeOf(r) != ChargeTransaction || len(c.rungs) < 2
}
