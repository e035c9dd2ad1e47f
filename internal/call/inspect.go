package call

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Inspection is the state of the buckets that a call would charge.
type Inspection struct {
	// Balances are those of every limit of the buckets, requested or not, child first.
	Balances []Balance
	// Unlimited means that the call would charge no bucket.
	Unlimited bool
	// Policy is the outage policy of the call. It is set beside an error, too.
	Policy Policy
	// Paused is the longest pause of the buckets; nil without a pause.
	Paused *Paused
}

// Inspect reads the buckets of an entity and its parents, under the configuration that an acquire would use,
// and writes nothing. It starts again, as an acquire does, if a limit was removed meanwhile. It fails if a
// bucket is known not to answer, or if a requested limit does not exist.
func (d *Desk) Inspect(ctx context.Context, r *Request) (Inspection, error) {
	for try := 1; ; try++ {
		seen, err := d.inspectOnce(ctx, r)
		if try == maxOutdated || !isOutdated(err) {
			return seen, err
		}
	}
}

// inspectOnce reads the buckets of a request once, and returns the balances of all their limits, child first.
// It fails if a bucket is known not to answer, or if a requested limit does not exist. Policy and Unlimited are
// set beside an error, too.
func (d *Desk) inspectOnce(ctx context.Context, r *Request) (seen Inspection, err error) {
	c := charged{policy: r.OnUnavailable}
	err = d.Routes.find(ctx, r, &c, &patience{most: d.Timeout})
	if seen.Policy, seen.Unlimited = c.policy, len(c.levels) == 0; err != nil {
		return seen, err
	}
	for i := range c.levels {
		lv := &c.levels[i]
		if lv.lane.Contact.Away() {
			return seen, d.Table.away()
		}
		beside := lane.BesideOf(lv.lane)
		v, err := beside.Inspect(ctx, lv.cfg, func(ctx context.Context) (*schema.Image, error) {
			return d.Buckets.Takeover.ReadOlderBucket(ctx, lv.lane.Entity, lv.lane.Resource, d.Lanes.IDs.Slot)
		})
		if err != nil {
			return seen, d.Table.reasonAt(lv.lane, err)
		}
		if !lv.cfg.Parent {
			lv.cfg = v.Config // it may have been read again
		}
		shown := Reading{lane: lv.lane, Reading: v.Reading()}
		shown.Image, shown.Batch = v.Projected(), r.Batch
		shown.precedence.Left = lv.lane.Memory.LeftTo(lane.LastRank, shown.Reading) // as an acquire would
		for k := range shown.Config.Limits {
			name := shown.Config.Limits[k].Name
			if !lv.cfg.Charges(name) && lv.cfg.Parent {
				continue
			}
			asked, _ := plan.AmountOf(lv.asked, name)
			seen.Balances = append(seen.Balances, shown.balance(name, asked, 0))
		}
	}
	seen.Paused = c.levels.longestPause(d.NowMS)
	if c.whole {
		return seen, nil
	}
	return seen, d.Routes.checkNames(r, &c)
}

// Held is the state of a call at one of its buckets.
type Held struct {
	Lane   *lane.Lane
	Config *plan.Config
	// Degraded means that something was admitted or corrected without the bucket.
	Degraded bool
	// Holdings are the call's amounts of each limit, and Incarnation is the bucket from which they were taken.
	Holdings    []backlog.Holding
	Incarnation *[]byte
}

// Held returns the state of the call at each of its buckets, child first. Only tests look into a call.
func (c *Call) Held() []Held {
	held := make([]Held, len(c.levels))
	for i := range c.levels {
		lv := &c.levels[i]
		held[i] = Held{Lane: lv.lane, Config: lv.cfg, Degraded: lv.degraded, Holdings: lv.holdings, Incarnation: &lv.incarnation}
	}
	return held
}
