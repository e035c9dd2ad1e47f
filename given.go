package dynalimit

import (
	"context"
	"log/slog"
	"sync"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// WithParent sets the parent of an entity without a record, or with a record that names no parent.
// Often the token of a request names the team, and another system makes the record. The parent counts
// by the limits of sources made for it or for its plan. If the record has a parent, or is Detached, the
// record wins, and the first difference is logged. A lease keeps its first parent.
//
// Take the id from a verified source, such as the claims of a signed token, and never from a header:
// the choice of the parent decides whose limits are charged.
//
// A parent without a record, one that is being deleted, the entity's own id and a bad id are a
// *ValidationError of the field "WithParent". A parent with more than 6 levels above it is ErrTooDeep.
func WithParent(id string) AcquireOption {
	return func(o *acquireOptions) {
		g := o.giving()
		g.parent, g.byCall = id, true
	}
}

// WithPlan sets the plan of an entity without a record, or with a record that names no plan. A plan in
// the record wins, and the first difference is logged. Take the name from a verified source, such as
// the claims of a signed token, and never from a header. A bad name is a *ValidationError of the field
// "WithPlan". A plan without limits has no effect.
//
// All callers of an entity should give the same plan. Callers with different plans rewrite its bucket
// in turn: for a second each uses the limits that the other wrote. The bucket never admits more than
// the larger of them. A caller without the plan uses the limits without it at once, and callers with
// the plan then wait a second each time.
func WithPlan(name string) AcquireOption {
	return func(o *acquireOptions) {
		g := o.giving()
		g.plan, g.plans = name, true
	}
}

// kept returns the parent and plan, which are needed to find the buckets of an outage later.
func (g *hints) kept() lane.Given {
	if g == nil {
		return lane.Given{}
	}
	return lane.Given{Parent: g.parent, Plan: g.plan}
}

// orParent returns the hints of a call, with the parent of strangers if the call has no parent. g may
// be nil.
func (g *hints) orParent(strangers *hints) *hints {
	if g == nil {
		return strangers
	}
	if !g.byCall {
		g.parent = strangers.parent // g belongs to this call alone
	}
	return g
}

// nextPlace returns the place of the parent that a call charges after an entity, by the entity's
// configuration. Its entity is empty if there is no parent. The record of the call's own entity wins
// over the call's parent.
func (r *request) nextPlace(at place, of *config.Resolved) place {
	if g := r.opts.given; g != nil && at.Entity == r.entity && !of.SaysParent && g.parent != "" && g.parent != r.entity {
		parent := r.at(g.parent, true)
		parent.given = true
		return parent
	}
	if of.Detached {
		return r.at("", false)
	}
	return r.at(of.ParentID, !of.Cascade)
}

// refuseCycle returns the error of a call with a cycle in its chain of parents. It names the call's
// parent if the chain has it, because the records alone may be right.
func (r *request) refuseCycle(entity string, given bool) error {
	if !given {
		return invalid("entity", "%s is its own ancestor; correct the parents", entity)
	}
	g := r.opts.given
	return invalid(g.field(), "is %q, and %s is an ancestor of it, so it would be its own ancestor; give another parent, or detach %s (Entity.Detached)", g.parent, entity, entity)
}

// logDifference logs the first call that gives another parent, or another plan, than the entity's
// record has. The call gives one.
func (r *request) logDifference(ctx context.Context, first *sync.Once, log *slog.Logger, of *config.Resolved) {
	g := r.opts.given
	parent := g.byCall && of.SaysParent && (of.Detached || of.ParentID != g.parent)
	plan := g.plans && !of.HasGivenPlan() && of.Plan != g.plan
	if !parent && !plan {
		return
	}
	first.Do(func() {
		log.WarnContext(ctx, "a call gives another parent or plan than the entity's record; the record wins",
			slog.String("entity", r.entity), slog.String("given_parent", g.parent), slog.String("given_plan", g.plan),
			slog.String("parent", of.ParentID), slog.Bool("detached", of.Detached), slog.String("plan", of.Plan))
	})
}
