package dynalimit

import (
	"cmp"
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/observe"
)

// desk is what the calls of a limiter are charged with, and what its leases are corrected
// with. All but settling never changes.
type desk struct {
	routes   *routes
	lanes    *lane.Registry
	table    availability
	store    transactor
	clock    func() time.Time
	ownClock bool // which is not the repository's
	// stopwatch is what durations are measured by: the clock before it is corrected, which is a step.
	stopwatch func() time.Time
	observer  observe.Observer
	// share, timeout, cleanup and mode are Options' LocalShare, Timeout, CleanupTimeout
	// and Cascade.
	share            float64
	timeout, cleanup time.Duration
	mode             ChargeMode
	// settling are the leases that SettleSoon settles.
	settling settlements
}

// transactor sends transactions.
type transactor interface {
	decodeBucket(item schema.Item, slot int) (*schema.Image, error)
	join(t *bucketTransaction, at *lane.Lane, w *plan.Write, o schema.Op)
	transactBuckets(ctx context.Context, t *bucketTransaction, slot int) (ddb.Verdict, map[int]*schema.Image, error)
}

func (d *desk) nowMS() int64 { return d.clock().UnixMilli() }

// modeOf says how the levels of a request are charged.
func (d *desk) modeOf(r *request) ChargeMode { return cmp.Or(r.opts.mode, d.mode) }

// serves reports whether a call may be served from what lanes debited ahead.
func (d *desk) serves(r *request, c *cascade) bool {
	return d.lanes.Horizon != nil && (d.modeOf(r) != ChargeTransaction || len(c.rungs) < 2)
}
