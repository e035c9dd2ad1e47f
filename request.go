package dynalimit

import (
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// AcquireOption changes one call.
type AcquireOption func(*acquireOptions)

type acquireOptions struct {
	limits        []Limit
	onUnavailable UnavailablePolicy
	mode          ChargeMode
	ignoreUnknown bool
	given         *hints // nil for nothing
}

// WithLimits adds limits to those of the entity, or replaces those of the same name; it removes no
// limits. The lease keeps them. Callers that disagree about the limits of one bucket take turns
// rewriting it, which is safe but slow.
func WithLimits(limits ...Limit) AcquireOption {
	return func(o *acquireOptions) { o.limits = append(o.limits, limits...) }
}

// WithOnUnavailable sets the outage policy of this call.
func WithOnUnavailable(p UnavailablePolicy) AcquireOption {
	return func(o *acquireOptions) { o.onUnavailable = p }
}

// WithChargeMode sets the charge mode of this call.
func WithChargeMode(m ChargeMode) AcquireOption {
	return func(o *acquireOptions) { o.mode = m }
}

// WithIgnoreUnknown skips the amounts of limits that no source has, also in later corrections of the
// lease. It is for callers that measure more than the limits of every entity. A misspelt name is
// skipped too, so use it only where the names are known to be right.
//
// Two cases remain a *ValidationError. One is a limit that a source has, but not the one that won:
// skipping it would lift the limit unseen. The other is a call without a single known limit, because
// nothing would limit it.
func WithIgnoreUnknown() AcquireOption {
	return func(o *acquireOptions) { o.ignoreUnknown = true }
}

// hints are a call's parent and plan for an entity. The entity's record wins over them.
type hints struct {
	// parent is the id of the entity's parent, and plan the name of its plan; each may be empty.
	parent, plan string
	// byCall means that parent is the call's, and not Options.StrangersParent. plans means that the
	// call gives the plan.
	byCall, plans bool
}

// giving returns the hints of a call, for an option to set; it makes them if they are nil.
func (o *acquireOptions) giving() *hints {
	if o.given == nil {
		o.given = &hints{}
	}
	return o.given
}

// check refuses an invalid plan or parent, before any read.
func (g *hints) check(entity string) error {
	if g.plans {
		if err := checkEntityID("WithPlan", g.plan); err != nil {
			return err
		}
	}
	if !g.byCall {
		return nil
	}
	if g.parent == "" {
		return invalid(g.field(), "is empty; give the id of the parent, or leave the option out")
	}
	if err := checkEntityID(g.field(), g.parent); err != nil {
		return err
	}
	if g.parent == entity {
		return invalid(g.field(), "is %q, the entity itself; give the id of its parent, or leave the option out", entity)
	}
	return nil
}

// field names the input of the parent.
func (g *hints) field() string {
	if g.byCall {
		return "WithParent"
	}
	return "options.StrangersParent"
}

// request is a call with validated input.
type request struct {
	entity, resource string
	amounts          Amounts
	opts             acquireOptions
}

// place identifies a bucket that a call charges. parent means that only the limits made for that
// parent, or for its plan, count. given means that the call named that parent (WithParent).
type place struct {
	config.GivenKey
	parent, given bool
}

// at returns the place of an entity's bucket on the resource of a request.
func (r *request) at(entity string, parent bool) place {
	at := place{config.GivenKey{Key: config.Key{Entity: entity, Resource: r.resource}}, parent, false}
	if r.opts.given != nil && entity == r.entity {
		at.Plan = r.opts.given.plan
	}
	return at
}

// beside returns the places of an entity's buckets on the groups of the resource. It skips a group that
// is the resource of the call, so that it is charged once.
func (p place) beside(own *config.Resolved) []place {
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
func (r *request) blockOf(key config.Key, c *config.Resolved) sources.Source {
	if key.Entity == r.entity || c.Blocked.IsOwn() {
		return c.Blocked
	}
	return ""
}

// policyAt returns the outage policy of a bucket's configuration: that of a level, else Refuse if the
// call requests enforced money, else empty. cfg holds the limits made from it, or the limiter's own;
// nil if there are no limits.
func (r *request) policyAt(of *config.Resolved, cfg *plan.Config) UnavailablePolicy {
	if of.OnUnavailable != "" {
		return UnavailablePolicy(of.OnUnavailable)
	}
	for _, l := range r.opts.limits {
		if r.amounts[l.Name] > 0 && l.Unit != "" && !l.Shadow {
			return Refuse
		}
	}
	if cfg == nil || cfg.Money == 0 {
		return ""
	}
	for i, l := range cfg.Limits {
		if r.amounts[l.Name] > 0 && cfg.IsMoney(i) && !cfg.InShadow(l.Name) && cfg.Charges(l.Name) {
			return Refuse
		}
	}
	return ""
}

// named returns the request with the buckets for the look-up of its limit names.
func (r *request) named(in []config.NamedBucket, unlimited bool) *config.Named {
	return &config.Named{Entity: r.entity, Resource: r.resource, Amounts: r.amounts, IgnoreUnknown: r.opts.ignoreUnknown, Buckets: in, Unlimited: unlimited}
}

func newRequest(entity, resource string, amounts Amounts, opts []AcquireOption) (request, error) {
	r := request{entity: entity, resource: resource, amounts: amounts}
	if reason := schema.CheckEntity(entity); reason != "" {
		return r, invalid("entity", "%s", reason)
	}
	if reason := schema.CheckResource(resource); reason != "" {
		return r, invalid("resource", "%s", reason)
	}
	if err := checkAmounts(amounts, false); err != nil {
		return r, err
	}
	if len(opts) == 0 {
		return r, nil
	}
	var err error
	r.opts, err = applyOptions(opts, entity)
	return r, err
}

// applyOptions validates the options of an entity's call, and returns them in one struct.
func applyOptions(opts []AcquireOption, entity string) (o acquireOptions, err error) {
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if err := checkPolicy("WithOnUnavailable", o.onUnavailable); err != nil {
		return o, err
	}
	if err := checkChargeMode("WithChargeMode", o.mode); err != nil {
		return o, err
	}
	if o.given != nil {
		if err := o.given.check(entity); err != nil {
			return o, err
		}
	}
	if len(o.limits) > 0 {
		o.limits, err = checkLimits("WithLimits", o.limits)
	}
	return o, err
}
