package dynalimit

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// ResolvedLimits is what the stored configuration says about an entity on a resource, and
// at which level. It is a plain value.
type ResolvedLimits struct {
	// EntityID and Resource are what was asked for.
	EntityID, Resource string
	// Limits are the limits in force, sorted by name. They are none if the entity is
	// Unlimited, or if no level has any (Level is empty): then a limiter's own
	// Options.Limits apply.
	Limits []Limit
	// Level is the level that won: where the limits came from, or which is unlimited. It
	// is empty if no level has limits or is unlimited.
	Level ConfigLevel
	// Plan is the plan that the entity's record names; empty for none.
	Plan string
	// Unlimited means that the level that won lifts all limits, also those of a
	// limiter's Options.
	Unlimited bool
	// Blocked is the most specific level that admits nothing, whichever level won; empty
	// for none. A parent that is blocked blocks an entity that cascades, too: ask for
	// ParentID.
	Blocked ConfigLevel
	// OnUnavailable is what calls do when DynamoDB does not answer, as PolicyLevel, the
	// most specific level that has a policy, says. Both are empty if none has: then it
	// is the parent's, if the entity cascades, or Options.OnUnavailable.
	OnUnavailable UnavailablePolicy
	// PolicyLevel is where OnUnavailable came from; empty for none.
	PolicyLevel ConfigLevel
	// Hidden are the limits that less specific levels have and the level that won does
	// not, so that they are not in force; in the order of their levels and names.
	Hidden []HiddenLimit
	// ParentID is the entity's parent, empty for none. Nothing is inherited from it.
	ParentID string
	// Cascade means that calls charge the parent's buckets too.
	Cascade bool
}

// HiddenLimit is a limit that is not in force because a more specific level won.
type HiddenLimit struct {
	// Name is the limit's.
	Name string
	// Level is the most specific level that has it.
	Level ConfigLevel
}

// ResolveLimits returns what applies to an entity on a resource, and where it comes from.
// It reads the table consistently, and neither reads nor changes the cache: one request, and
// a second one if the entity is on a plan. The entity needs no record. It fails with a
// *ValidationError for bad input, and for a stored level that cannot be read.
func (r *Repository) ResolveLimits(ctx context.Context, entity, resource string) (ResolvedLimits, error) {
	if err := r.usable(ctx); err != nil {
		return ResolvedLimits{}, err
	}
	if err := checkEntityID("entity", entity); err != nil {
		return ResolvedLimits{}, err
	}
	if err := checkResource(resource); err != nil {
		return ResolvedLimits{}, err
	}
	items, _, err := r.readConfigItems(ctx, configKey{entity, resource}, false)
	if err != nil {
		return ResolvedLimits{}, err
	}
	v, limits, err := items.verdict()
	if err != nil {
		return ResolvedLimits{}, err
	}
	record := schema.DecodeLink(items.meta)
	resolved := ResolvedLimits{
		EntityID: entity, Resource: resource, Limits: limits, Level: ConfigLevel(v.Level), Plan: record.Plan,
		Unlimited: v.Unlimited, Blocked: ConfigLevel(v.Blocked),
		OnUnavailable: UnavailablePolicy(v.Policy), PolicyLevel: ConfigLevel(v.PolicyLevel),
		ParentID: record.ParentID, Cascade: record.Cascade,
	}
	for _, h := range v.Hidden {
		resolved.Hidden = append(resolved.Hidden, HiddenLimit{Name: h.Name, Level: ConfigLevel(h.Level)})
	}
	return resolved, nil
}

// InvalidateConfig makes the next use of what is cached about an entity on a resource read
// the table again; "" means every entity, or every resource. Changes made through this
// Repository need no such call. It asks nobody. What is forgotten cannot be used while
// DynamoDB does not answer.
func (r *Repository) InvalidateConfig(entity, resource string) {
	if !r.made() {
		return
	}
	r.configs.evict(func(k configKey) bool {
		return (entity == "" || k.entity == entity) && (resource == "" || k.resource == resource)
	})
}
