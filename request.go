package dynalimit

import (
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
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

// WithLimits adds limits to those of the entity, or replaces those of the same name; it
// removes none. The lease keeps them. Callers that disagree about the limits of one
// bucket take turns rewriting it, which is safe but slow.
func WithLimits(limits ...Limit) AcquireOption {
	return func(o *acquireOptions) { o.limits = append(o.limits, limits...) }
}

// WithOnUnavailable says what this call does when DynamoDB does not answer.
func WithOnUnavailable(p UnavailablePolicy) AcquireOption {
	return func(o *acquireOptions) { o.onUnavailable = p }
}

// WithChargeMode says how this call charges the entity and its parents.
func WithChargeMode(m ChargeMode) AcquireOption {
	return func(o *acquireOptions) { o.mode = m }
}

// WithIgnoreUnknown skips the amounts of limits that no level has, also in what the lease
// is later corrected by. It is for callers that measure more than every entity is limited
// by. A misspelt name is skipped too, so give it only where the names are known to be
// right. Two things are a *ValidationError all the same: a limit that a level has, but not
// the one that won, because the entity would have it lifted unseen; and a call of which no
// name is a limit, because nothing would limit it.
func WithIgnoreUnknown() AcquireOption {
	return func(o *acquireOptions) { o.ignoreUnknown = true }
}

// hints are what a call says of an entity, as far as the entity's record does not.
type hints struct {
	// parent is the id of the entity's parent, and plan the name of its plan; empty for none.
	parent, plan string
	// byCall means that the call gives the parent, and not Options.StrangersParent. plans means that
	// the call gives the plan.
	byCall, plans bool
}

// giving returns what the options of a call give, for an option to add to.
func (o *acquireOptions) giving() *hints {
	if o.given == nil {
		o.given = &hints{}
	}
	return o.given
}

// check refuses a plan or a parent that cannot be right, before anything is read.
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

// field names the input that gives the parent.
func (g *hints) field() string {
	if g.byCall {
		return "WithParent"
	}
	return "options.StrangersParent"
}

// request is a call whose input has been checked.
type request struct {
	entity, resource string
	amounts          Amounts
	opts             acquireOptions
}

// place is a bucket that a call charges. parent means that it is charged as a parent's, by the
// limits made for that parent or for its plan. given means that the call gave that parent.
type place struct {
	config.GivenKey
	parent, given bool
}

// at is the place of an entity's bucket on the resource of a request.
func (r *request) at(entity string, parent bool) place {
	at := place{config.GivenKey{Key: config.Key{Entity: entity, Resource: r.resource}}, parent, false}
	if r.opts.given != nil && entity == r.entity {
		at.Plan = r.opts.given.plan
	}
	return at
}

// beside are the places of an entity's buckets on the groups of the resource, without the resource
// of the call, which is charged once.
func (p place) beside(own *config.Resolved) []place {
	var all []place
	for _, group := range own.Groups {
		if group != p.Resource {
			all = append(all, place{config.GivenKey{Key: config.Key{Entity: p.Entity, Resource: group, Group: true}, Plan: p.Plan}, p.parent, p.given})
		}
	}
	return all
}

// blockOf is the level that blocks a call at a bucket; empty for none. A block of the resource or
// the system is decided once, for the entity that calls, also where the parent is charged by all its
// levels: of a parent only the levels made for it, or for its plan, block.
func (r *request) blockOf(key config.Key, c *config.Resolved) levels.Level {
	if key.Entity == r.entity || c.Blocked.IsOwn() {
		return c.Blocked
	}
	return ""
}

// policyAt is what the configuration of a bucket has a call do when the store does not answer: what a
// level says, else Block if the call names money that is enforced; empty for nothing. cfg is made of
// it, or of a limiter's own limits; nil of none.
func (r *request) policyAt(of *config.Resolved, cfg *plan.Config) UnavailablePolicy {
	if of.OnUnavailable != "" {
		return UnavailablePolicy(of.OnUnavailable)
	}
	for _, l := range r.opts.limits {
		if r.amounts[l.Name] > 0 && l.Unit != "" && !l.Shadow {
			return Block
		}
	}
	if cfg == nil || cfg.Money == 0 {
		return ""
	}
	for i, l := range cfg.Limits {
		if r.amounts[l.Name] > 0 && cfg.IsMoney(i) && !cfg.InShadow(l.Name) && cfg.Charges(l.Name) {
			return Block
		}
	}
	return ""
}

// named is the request with the buckets in which the names of its limits are looked for.
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

// applyOptions returns the options of a call of an entity in one struct, checked.
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
