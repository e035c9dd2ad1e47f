// Package sources names the levels of configuration: where limits, a block or a policy come
// from.
package sources

// Level is where something that is in force was set.
type Source string

// The levels, the most specific first. The list of the first level with limits is in force. If that
// level extends (admin.LimitConfig.Extends), its limits are merged by name over those of the next
// level with limits, and so on. A level that blocks admits nothing, even if more specific
// levels have limits.
const (
	Override      Source = "override"       // dynalimit.WithLimits of the call
	Entity        Source = "entity"         // the entity's record for the resource
	EntityDefault Source = "entity_default" // the entity's record for every resource
	Plan          Source = "plan"           // the record of the entity's plan for the resource
	PlanDefault   Source = "plan_default"   // the record of the entity's plan for every resource
	Resource      Source = "resource"       // the resource's record for every entity
	System        Source = "system"         // the system's record
	Options       Source = "options"        // dynalimit.Options.Limits
)

// OfEntity reports whether the level is the entity's own.
func (l Source) OfEntity() bool { return l == Entity || l == EntityDefault }

// OfPlan reports whether the level is a plan's.
func (l Source) OfPlan() bool { return l == Plan || l == PlanDefault }

// IsOwn reports whether the level was made for an entity or for its plan, and not for every
// entity.
func (l Source) IsOwn() bool { return l.OfEntity() || l.OfPlan() }
