package dynalimit

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/sources"
)

// ResolvedLimits is the stored configuration of an entity on a resource, with the source of each part.
// It is a plain value. As JSON it has the names of its fields in lower case (entity_id, policy_source),
// without empty fields.
type ResolvedLimits struct {
	// EntityID is the requested entity.
	EntityID string `json:"entity_id"`
	// Resource is the requested resource.
	Resource string `json:"resource"`
	// Limits are the limits in force, sorted by name. It is empty if the entity is Unlimited and not
	// Counted, or if no source has limits (Source is empty): then a limiter's own Options.Limits apply.
	Limits []Limit `json:"limits,omitempty"`
	// From are the sources that the Limits come from, in their order.
	From []sources.Source `json:"from,omitempty"`
	// Source is the most specific source that has limits, or is unlimited. If it extends less specific
	// sources, they count too: see From. It is empty if no source has limits or is unlimited.
	Source sources.Source `json:"source,omitempty"`
	// Plan is the plan in the entity's record; empty without one.
	Plan string `json:"plan,omitempty"`
	// Unlimited means that the source that won lifts all limits, also those of a
	// limiter's Options.
	Unlimited bool `json:"unlimited,omitempty"`
	// Counted is the most specific source that is unlimited and counted (admin.LimitConfig.Counted):
	// limits of less specific sources are in shadow. It is empty if no source is.
	Counted sources.Source `json:"counted,omitempty"`
	// Blocked is the most specific source with a block, whichever source won; empty without a block. A
	// parent that counts blocks the entity too, if the block is of one of the parent's own sources or of
	// its plan: call ResolveLimits for ParentID.
	Blocked sources.Source `json:"blocked,omitempty"`
	// Admitted is the source that lifts a block with exceptions (admin.LimitConfig.Admit); empty without
	// one. Another block may still apply: see Blocked.
	Admitted sources.Source `json:"admitted,omitempty"`
	// OnUnavailable is the outage policy, and PolicySource is the most specific source that has one. Both
	// are empty if no source has a policy. Then that of a parent that counts applies, or
	// Options.OnUnavailable.
	OnUnavailable UnavailablePolicy `json:"on_unavailable,omitempty"`
	// PolicySource is the source of OnUnavailable; empty without one.
	PolicySource sources.Source `json:"policy_source,omitempty"`
	// Hidden are the limits of less specific sources that are not in force, because a more specific
	// source replaces them. They are in the order of their sources and names.
	Hidden []HiddenLimit `json:"hidden,omitempty"`
	// Lifted are the limits that a source takes away by name, with that source, in the order of
	// their names.
	Lifted []HiddenLimit `json:"lifted,omitempty"`
	// ParentID is the entity's parent; empty without one. The entity inherits nothing from it. Unless
	// Detached, calls charge the parent's buckets too, by the sources made for the parent or for its
	// plan.
	ParentID string `json:"parent_id,omitempty"`
	// Cascade means that calls charge the parent by all its sources, also by those of resource and
	// system.
	Cascade bool `json:"cascade,omitempty"`
	// Detached means that the parent is not charged.
	Detached bool `json:"detached,omitempty"`
	// Raised are the limits that are raised until an instant, in the order of their names. Limits have
	// them as they are raised.
	Raised []RaisedLimit `json:"raised,omitempty"`
	// Groups are the groups of the resource (admin.LimitConfig.Groups) with the configuration of each,
	// in the order of their names. Calls charge their buckets too.
	Groups []ResolvedLimits `json:"groups,omitempty"`
}

// HiddenLimit is a limit that is not in force because of a more specific source.
type HiddenLimit struct {
	// Name is the name of the limit.
	Name string `json:"name"`
	// Source is the most specific one with the limit. For a lifted limit it is the one that lifts it.
	Source sources.Source `json:"source"`
}

// RaisedLimit is a limit that is raised until an instant (admin.Limits.Raise).
type RaisedLimit struct {
	// Name is the name of the limit.
	Name string `json:"name"`
	// Capacity is the limit's capacity without the raise, in whole tokens.
	Capacity int64 `json:"capacity"`
	// Source stores the raise.
	Source sources.Source `json:"source"`
	// Until is the end of the raise, by DynamoDB's clock.
	Until time.Time `json:"until"`
}

// ResolveLimits returns the configuration in force of an entity on a resource and its groups, with its
// sources. It reads the table consistently, and neither reads nor changes the cache. It costs one
// request, one more for each group, and for each a second one if the entity is on a plan. The entity
// needs no record. It fails with a *ValidationError for bad input, and for a stored source that cannot
// be read.
func (r *Repository) ResolveLimits(ctx context.Context, entity, resource string) (ResolvedLimits, error) {
	if err := r.checkUsable(ctx); err != nil {
		return ResolvedLimits{}, err
	}
	if err := checkEntityID("entity", entity); err != nil {
		return ResolvedLimits{}, err
	}
	if err := checkResource(resource); err != nil {
		return ResolvedLimits{}, err
	}
	resolved, err := r.resolveLimits(ctx, config.Key{Entity: entity, Resource: resource})
	for i := range resolved.Groups {
		if resolved.Groups[i], err = r.resolveLimits(ctx, config.Key{Entity: entity, Resource: resolved.Groups[i].Resource, Group: true}); err != nil {
			resolved.Groups = resolved.Groups[:i]
			break
		}
	}
	return resolved, err
}

// resolveLimits reads the sources of an entity on a resource consistently, without the cache, and returns the
// limits in force now, with their raises. Of the resource's groups it returns only the names.
func (r *Repository) resolveLimits(ctx context.Context, key config.Key) (ResolvedLimits, error) {
	said, err := r.configs.Read(ctx, key)
	if err != nil {
		return ResolvedLimits{}, err
	}
	record, inForce := said.Record, said.Limits
	resolved := ResolvedLimits{
		EntityID: key.Entity, Resource: key.Resource, Source: said.Source, Plan: record.Plan,
		Unlimited: said.Unlimited, Counted: said.Counted, Blocked: said.Blocked, Admitted: said.Admitted,
		OnUnavailable: UnavailablePolicy(said.Policy), PolicySource: said.PolicySource,
		ParentID: record.ParentID, Cascade: record.Cascade, Detached: record.Detached,
	}
	for _, h := range said.Hidden {
		resolved.Hidden = append(resolved.Hidden, HiddenLimit(h))
	}
	for _, h := range said.Lifted {
		resolved.Lifted = append(resolved.Lifted, HiddenLimit(h))
	}
	limits, raised, _ := said.At(r.clock.LatestMS())
	for _, l := range limits {
		resolved.Limits, resolved.From = append(resolved.Limits, Limit(l.ConfigLimit)), append(resolved.From, l.Source)
	}
	for _, by := range raised {
		i := slices.IndexFunc(inForce, func(l config.Limit) bool { return l.Name == by.Name })
		resolved.Raised = append(resolved.Raised, RaisedLimit{Name: by.Name, Capacity: inForce[i].Capacity, Source: by.Source, Until: time.UnixMilli(by.EndsMS()).UTC()})
	}
	for _, group := range said.Groups {
		resolved.Groups = append(resolved.Groups, ResolvedLimits{Resource: group})
	}
	return resolved, nil
}
