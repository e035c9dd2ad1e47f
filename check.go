package dynalimit

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Report is the result of a dry run of Acquire. It is a plain value.
type Report struct {
	// Allowed means that the acquire would be admitted.
	Allowed bool
	// Blocked names the block and its source. It is nil if nothing is blocked. If it is set, no bucket
	// was read and Statuses is empty.
	Blocked *BlockedError
	// Unlimited means that nothing limits the call, because every level that could is unlimited. Then
	// Statuses holds only limits that are counted all the same (LimitStatus.Unlimited).
	Unlimited bool
	// RetryAfter is the exact wait until the amounts fit in every charged bucket, without other
	// traffic, and until every pause has ended. It is 0 if they fit now. It is Never if one exceeds a
	// burst, or if the entity is blocked.
	RetryAfter time.Duration
	// OnUnavailable is the outage policy of the call.
	OnUnavailable UnavailablePolicy
	// Statuses holds every limit of the entity and its parents, requested or not. The entity comes
	// first, at each entity the resource comes before its groups, and limits are in name order. Each
	// names its source.
	Statuses []LimitStatus
}

// Check is a dry run of Acquire: it reads every level's bucket and writes nothing. Amounts may be
// empty. Denials and blocks are reported in the Report. Other errors are those of Acquire.
func (l *RateLimiter) Check(ctx context.Context, entity, resource string, amounts Amounts, opts ...AcquireOption) (*Report, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	r, err := newReadRequest(entity, resource, amounts, opts)
	if err != nil {
		return nil, err
	}
	if strangers := l.desk.routes.strangers; strangers != nil {
		r.opts.given = r.opts.given.orParent(strangers)
	}
	readings, policy, err := l.read(ctx, r)
	if blocked, ok := errors.AsType[*BlockedError](err); ok {
		return &Report{Blocked: blocked, RetryAfter: Never, OnUnavailable: policy}, nil
	}
	if err != nil {
		return nil, err
	}
	report := &Report{Allowed: true, Unlimited: len(readings) == 0, OnUnavailable: policy}
	for _, shown := range readings {
		for i := range shown.Config.Limits {
			name := shown.Config.Limits[i].Name
			if !shown.charged.Charges(name) && shown.charged.Parent {
				continue
			}
			asked, _ := plan.AmountOf(shown.asked, name)
			s := shown.status(name, asked, 0)
			report.Allowed = report.Allowed && !s.Exceeded
			if s.Exceeded {
				report.RetryAfter = max(report.RetryAfter, s.RetryAfter)
			}
			report.Statuses = append(report.Statuses, s)
		}
	}
	report.Unlimited = report.Unlimited || len(report.Statuses) > 0 && !slices.ContainsFunc(report.Statuses, func(s LimitStatus) bool { return !s.Unlimited })
	if paused, ok := errors.AsType[*PausedError](l.desk.pausedAmong(len(readings), func(i int) *lane.Lane { return readings[i].at })); ok {
		report.Allowed, report.RetryAfter = false, max(report.RetryAfter, paused.RetryAfter)
	}
	return report, nil
}

// Available returns the whole tokens of each limit that an acquire could take: the least of the entity
// and its parents, on the resource and its groups, never below 0. It leaves out shadow limits and
// limits that only unlimited levels have. It is empty if the entity is blocked.
func (r *Report) Available() Amounts {
	available := Amounts{}
	for _, s := range r.Statuses {
		if s.Limit.Shadow {
			continue
		}
		least, ok := available[s.Limit.Name]
		if !ok {
			least = math.MaxInt64
		}
		available[s.Limit.Name] = max(0, min(least, s.Remaining))
	}
	return available
}

// newReadRequest validates a call that writes nothing. Its amounts may be empty.
func newReadRequest(entity, resource string, amounts Amounts, opts []AcquireOption) (request, error) {
	if len(amounts) > 0 {
		return newRequest(entity, resource, amounts, opts)
	}
	r, err := newRequest(entity, resource, Amounts{"any": 0}, opts)
	r.amounts = nil
	return r, err
}

// read reads the buckets of an entity and its parents, under the configuration that an
// acquire would use. It starts again, as an acquire does, if a limit was removed
// meanwhile.
func (l *RateLimiter) read(ctx context.Context, r request) ([]askedReading, UnavailablePolicy, error) {
	if l.closed.Load() {
		return nil, "", ErrClosed
	}
	for try := 1; ; try++ {
		readings, policy, err := l.readOnce(ctx, r)
		if try == maxOutdated || !outdated(err) {
			return readings, policy, err
		}
	}
}

// askedReading is the balance of a bucket, with the requested amounts.
type askedReading struct {
	levelReading
	asked []plan.Signed
	at    *lane.Lane
	// charged is the configuration of the call for this bucket.
	charged *plan.Config
}

// readOnce reads the buckets once, under the known configuration.
func (l *RateLimiter) readOnce(ctx context.Context, r request) ([]askedReading, UnavailablePolicy, error) {
	d := l.desk
	c, policy, err := d.routes.find(ctx, &r, cascade{}, &patience{most: d.timeout})
	if err != nil {
		return nil, policy, err
	}
	readings := make([]askedReading, 0, len(c.rungs))
	for i := range c.rungs {
		rung := &c.rungs[i]
		if rung.lane.Contact.Away() {
			return nil, policy, d.table.away()
		}
		beside := lane.BesideOf(rung.lane)
		v, err := beside.Inspect(ctx, rung.cfg, func(ctx context.Context) (*schema.Image, error) {
			return d.buckets.Takeover.Bucket(ctx, rung.lane.Entity, rung.lane.Resource, d.routes.lanes.IDs.Slot)
		})
		if err != nil {
			return nil, policy, d.table.userError(rung.lane, err)
		}
		if !rung.cfg.Parent {
			rung.cfg = v.Config // it may have been read again
		}
		shown := askedReading{levelReading{entity: rung.lane.Entity, resource: rung.lane.Resource, Reading: v.Reading()}, c.askedOf(i), rung.lane, rung.cfg}
		shown.Image = v.Projected()
		if rung.lane.Line.Waited() {
			shown.precedence.Left = rung.lane.Line.LeftTo(lane.LastRank, shown.Reading) // as an acquire would
		}
		readings = append(readings, shown)
	}
	if len(c.rungs) == 1 && len(c.asked) == len(r.amounts) { // one bucket has all that is asked
		return readings, policy, nil
	}
	return readings, policy, d.routes.checkNames(&r, &c)
}
