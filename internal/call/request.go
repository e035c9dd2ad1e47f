package call

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// milli is the number of millitokens in a token.
const milli = 1000

// Policy is the decision about a call when DynamoDB does not answer. Empty stands for the default.
type Policy string

// The policies, with the names of the public ones.
const (
	Refuse Policy = "block"
	Allow  Policy = "allow"
	Local  Policy = "local"
)

// Admits reports whether the policy may admit calls without the store.
func (p Policy) Admits() bool { return p == Allow || p == Local }

// Mode is the way to charge several buckets: with Transaction in one transaction, with any other one side by
// side. Empty stands for the limiter's.
type Mode string

// Transaction charges all levels in one transaction.
const Transaction Mode = "transaction"

// Options are the options of one call, validated.
type Options struct {
	// Limits are put over those of the entity.
	Limits        []schema.ConfigLimit
	OnUnavailable Policy
	Mode          Mode
	IgnoreUnknown bool
	// Batch means that the call leaves the reserve of each limit to interactive calls.
	Batch bool
	// Given is the parent and plan that the call gives; nil if it gives none.
	Given *Given
}

// Given is a call's parent and plan for an entity. The entity's record wins over them.
type Given struct {
	// Parent is the id of the entity's parent, and Plan the name of its plan; each may be empty.
	Parent, Plan string
	// ByCall means that Parent is the call's, and not Options.StrangersParent. Plans means that the
	// call gives the plan.
	ByCall, Plans bool
}

// Field returns the name of the input that gave the parent, for errors: WithParent or options.StrangersParent.
func (g *Given) Field() string {
	if g.ByCall {
		return "WithParent"
	}
	return "options.StrangersParent"
}

// laneGiven returns the parent and plan, with which a lane finds the buckets of an outage later; empty if g is
// nil.
func (g *Given) laneGiven() lane.Given {
	if g == nil {
		return lane.Given{}
	}
	return lane.Given{Parent: g.Parent, Plan: g.Plan}
}

// Request is a call with validated input.
type Request struct {
	Entity, Resource string
	// Amounts are in whole tokens, by limit.
	Amounts map[string]int64
	Options
}

// place identifies a bucket that a call charges. parent means that only the limits made for that
// parent, or for its plan, count. given means that the call named that parent (WithParent).
type place struct {
	config.GivenKey
	parent, given bool
}

// placeAt returns the place of an entity's bucket on the resource of a request. parent means that only the
// limits made for it, or for its plan, count. The place of the call's own entity has the plan that the call
// gives.
func (r *Request) placeAt(entity string, parent bool) place {
	at := place{config.GivenKey{Key: config.Key{Entity: entity, Resource: r.Resource}}, parent, false}
	if r.Given != nil && entity == r.Entity {
		at.Plan = r.Given.Plan
	}
	return at
}

// nextPlace returns the place of the parent that a call charges after an entity, by the entity's
// configuration. Its entity is empty without a parent. The record of the call's own entity wins
// over the call's parent.
func (r *Request) nextPlace(at place, of *config.Resolved) place {
	if g := r.Given; g != nil && at.Entity == r.Entity && !of.SaysParent && g.Parent != "" && g.Parent != r.Entity {
		parent := r.placeAt(g.Parent, true)
		parent.given = true
		return parent
	}
	if of.Detached {
		return r.placeAt("", false)
	}
	return r.placeAt(of.ParentID, !of.Cascade)
}

// groupPlaces returns the places of an entity's buckets on the groups of the resource. It skips a group
// that is the resource of the call, so that it is charged once.
func (p place) groupPlaces(own *config.Resolved) []place {
	var all []place
	for _, group := range own.Groups {
		if group != p.Resource {
			all = append(all, place{config.GivenKey{Key: config.Key{Entity: p.Entity, Resource: group, Group: true}, Plan: p.Plan}, p.parent, p.given})
		}
	}
	return all
}

// blockOf returns the source that blocks a call at a bucket, empty if none does. A block of the resource
// or the system is decided once, at the calling entity. At a parent only the sources made for it, or for
// its plan, block, even if all its sources are charged.
func (r *Request) blockOf(key config.Key, c *config.Resolved) sources.Source {
	if key.Entity == r.Entity || c.Blocked.IsOwn() {
		return c.Blocked
	}
	return ""
}

// policyAt returns the outage policy of a bucket's configuration: that of a source, else Refuse if the call
// requests money whose limit is enforced, else empty. cfg holds the limits made from it, or the limiter's own;
// nil if there are no limits.
func (r *Request) policyAt(of *config.Resolved, cfg *plan.Config) Policy {
	if of.OnUnavailable != "" {
		return Policy(of.OnUnavailable)
	}
	for i := range r.Limits {
		if l := &r.Limits[i]; r.Amounts[l.Name] > 0 && l.Unit != "" && !l.Shadow {
			return Refuse
		}
	}
	if cfg == nil || cfg.Money == 0 {
		return ""
	}
	for i := range cfg.Limits {
		if name := cfg.Limits[i].Name; r.Amounts[name] > 0 && cfg.IsMoney(i) && !cfg.InShadow(name) && cfg.Charges(name) {
			return Refuse
		}
	}
	return ""
}

// namedLimits returns the input for the look-up of the request's limit names in buckets.
func (r *Request) namedLimits(in []config.NamedBucket, unlimited bool) *config.Named {
	return &config.Named{Entity: r.Entity, Resource: r.Resource, Amounts: r.Amounts, IgnoreUnknown: r.IgnoreUnknown, Buckets: in, Unlimited: unlimited}
}

// patience is the time that a call waits for the store. It begins with the first request.
type patience struct {
	// most is a call's whole time for the store, Options.Timeout.
	most time.Duration
	// began is the instant since which the silence of a bucket counts.
	began time.Time
	// until is the end of the call's time for the store. reserve is earlier than the caller's own
	// deadline, so that the policy can still decide. Either may be zero.
	until, reserve time.Time
	// ahead means that a take may be sent on an expired configuration. refreshes are the reads of those.
	ahead     bool
	refreshes refreshes
}

const (
	// mostReserve bounds the time before a caller's deadline that is left to the policy. Below the
	// bound it is a tenth of the time.
	mostReserve = 50 * time.Millisecond
	// leastSilence is the least silence of a bucket before a caller's own deadline lets the policy
	// admit. Otherwise a short deadline would be a way around a limit.
	leastSilence = 200 * time.Millisecond
)

// startClock is called before a request: from now on the silence of the store counts. The first request starts
// the call's time for the store, and sets the reserve before the caller's own deadline if that is near.
func (p *patience) startClock(ctx context.Context) {
	p.began = time.Now()
	if !p.until.IsZero() {
		return
	}
	p.until = p.began.Add(p.most)
	if deadline, ok := ctx.Deadline(); ok {
		if left := deadline.Sub(p.began); left < p.most+mostReserve {
			p.reserve = deadline.Add(-min(left/10, mostReserve))
		}
	}
}

// ownCopy returns a copy, for one of several reads at the same time; nil if p is nil.
func (p *patience) ownCopy() *patience {
	if p == nil {
		return nil
	}
	own := *p
	return &own
}

// bound returns the instant at which a call stops waiting for a request that no lane sends. It is
// before the caller's own deadline if the store has been silent long enough by then.
func (p *patience) bound() time.Time {
	if p.reserve.Before(p.until) && p.reserve.Sub(p.began) >= leastSilence {
		return p.reserve
	}
	return p.until
}

// nextDecision returns the instant at which a waiting call must decide next: the reserve, if it is set and
// before the end of the call's time for the store, else that end.
func (p *patience) nextDecision() time.Time {
	if !p.reserve.IsZero() && p.reserve.Before(p.until) {
		return p.reserve
	}
	return p.until
}
