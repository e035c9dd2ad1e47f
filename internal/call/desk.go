package call

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/store"
	"github.com/dynalimit/dynalimit/observe"
)

// Desk is the shared state of a limiter's calls and leases.
type Desk struct {
	// Lanes are this process's lanes, one a bucket. Clock is the limiter's, and NowMS is its time in Unix ms.
	// Stopwatch measures durations. It is the uncorrected clock, because a correction is a step.
	Lanes            *lane.Registry
	Clock, Stopwatch func() time.Time
	NowMS            func() int64
	// Observer receives events.
	Observer observe.Observer
	// Cleanup bounds each correction of a lease; the end of its caller's context does not.
	Cleanup time.Duration

	// Routes find the buckets of a call. Table knows whether the table answers, and Buckets and Transact send
	// requests. Transact is that of Buckets, but in tests.
	Routes   *routes
	Table    Table
	Buckets  *store.Buckets
	Transact store.Transact
	// Share is the process's part of the limits under Local. Timeout bounds the time of a call for the store.
	Share   float64
	Timeout time.Duration
	// Closing is closed when the limiter is closed.
	Closing <-chan struct{}

	ownClock bool // Clock is not the repository's
	machine  bool // the repository's clock is the machine's own
	mode     Mode
}

// DeskOptions configure a Desk. All but Namespace, Now, Limits, Strangers, Horizon, Trace and OnDrop are
// required.
type DeskOptions struct {
	// Configs, Namespace, Breaker, Buckets, Keys, Queues, Turns and Passes are the repository's. RepoClock is its
	// clock, and Machine means that the clock's source is the machine's own.
	Configs   *config.Cache
	Namespace *Namespace
	Breaker   *ddb.Breaker
	Buckets   *store.Buckets
	Keys      schema.Keys
	Queues    *backlog.Queues
	Turns     *lane.Turns
	Passes    *lane.Passes
	RepoClock *ddb.Clock
	Machine   bool
	// Now is the limiter's own clock; nil for the repository's.
	Now func() time.Time
	// Limits are the limiter's own. Policy is the outage policy of calls without one.
	Limits []schema.ConfigLimit
	Policy Policy
	Mode   Mode
	// Share is the process's part of the limits under Local.
	Share float64
	// Timeout bounds the time of a call for the store, and Cleanup the writes after it.
	Timeout, Cleanup time.Duration
	// RefuseUnrecorded refuses calls of entities without a record. Strangers is the parent of entities without
	// another one; nil without such a parent.
	RefuseUnrecorded bool
	Strangers        *Given
	// Size bounds the number of buckets in memory. Horizon returns the prefetch time of a resource; nil
	// without prefetches.
	Size    int
	Horizon func(resource string) time.Duration
	// Observer receives events. Trace is called for writes, and OnDrop with amounts that are never written.
	Observer observe.Observer
	Trace    lane.Trace
	OnDrop   func(amounts []plan.Signed)
	// Closing is closed when the limiter is closed.
	Closing <-chan struct{}
	Log     *slog.Logger
}

// NewDesk returns a desk. It does no I/O and starts no goroutine. It fails for a Size below 1.
func NewDesk(o *DeskOptions) (*Desk, error) {
	d := &Desk{
		Clock: o.RepoClock.Now, NowMS: o.RepoClock.NowMS, Stopwatch: o.RepoClock.Source, Observer: o.Observer, Cleanup: o.Cleanup,
		Table: Table{o.Breaker, o.Buckets}, Buckets: o.Buckets, Transact: o.Buckets.Transact, Share: o.Share, Timeout: o.Timeout, Closing: o.Closing,
		ownClock: o.Now != nil, machine: o.Machine, mode: o.Mode,
	}
	sure := o.RepoClock.SureMS
	if o.Now != nil {
		sure = func() int64 { return o.Now().UnixMilli() }
		d.Clock, d.NowMS, d.Stopwatch = o.Now, sure, o.Now
	}
	d.Routes = &routes{
		configs: configs{o.Configs}, namespace: o.Namespace, clock: o.RepoClock, nowMS: d.NowMS,
		store: o.Buckets, table: d.Table, fallback: config.NewFallback(o.Limits), log: o.Log, onUnavailable: o.Policy,
		lookups: newLookups(o.RefuseUnrecorded, o.RepoClock.Source), strangers: o.Strangers,
	}
	lanes, err := lane.New(lane.Options{
		Access: lane.Access{
			Store: o.Buckets, Keys: o.Keys, Configs: laneConfigs{d.Routes.configs, d.Routes.fallback},
			NowMS: d.NowMS, SureMS: sure, Tick: o.RepoClock.Tick, Table: d.Table, Log: o.Log,
		},
		Size: o.Size, Patience: o.Timeout, Horizon: o.Horizon,
		Queues: o.Queues, Turns: o.Turns, Passes: o.Passes, Locate: d.Routes.locateBuckets, Trace: o.Trace, OnDrop: o.OnDrop, OnLapse: d.lapseReporter(),
	})
	d.Lanes, d.Routes.lanes = lanes, lanes
	return d, err
}

// lapseReporter returns a function that reports lapsed slots to the observer; nil if no observer wants them.
func (d *Desk) lapseReporter() func(*lane.Lane, lane.Lapsed) {
	report := d.Observer.SlotsExpired
	if report == nil {
		return nil
	}
	return func(l *lane.Lane, lapsed lane.Lapsed) {
		report(observe.SlotsExpired{EntityID: l.Entity, Resource: l.Resource, Limit: lapsed.Limit, Slots: lapsed.Slots / milli})
	}
}

// KnownPolicy returns the policy of calls without one: the system's as last read, or the limiter's if the
// system has none.
func (d *Desk) KnownPolicy() Policy { return d.Routes.knownPolicy() }

// ReasonOf returns the reason of a call for a *lane.Failure of an entity's bucket on a resource. Any other
// error, and nil, stays.
func (d *Desk) ReasonOf(entity, resource string, err error) error {
	return d.Table.ReasonOf(entity, resource, err)
}

// modeOf returns the charge mode of a request, or the limiter's if the request has none.
func (d *Desk) modeOf(r *Request) Mode { return cmp.Or(r.Mode, d.mode) }

// mayServe reports whether a call with a number of levels may be served from stocks, if the limiter prefetches.
// It is false for two levels or more in the charge mode Transaction.
func (d *Desk) mayServe(r *Request, levels int) bool { return d.modeOf(r) != Transaction || levels < 2 }
