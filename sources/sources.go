// Package sources names the sources of configuration: the places where limits, blocks and outage
// policies are set.
package sources

// Source is the place where limits, a block or a policy were set. It is empty if none were.
type Source string

// The sources, the most specific first. The list of the first source with limits is in force. If that
// source extends (admin.LimitConfig.Extends), its limits are merged by name over those of the next
// source with limits, and so on. A source that blocks admits nothing, even if more specific
// sources have limits.
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

// OfEntity reports whether the source is the entity's own: Entity or EntityDefault.
func (s Source) OfEntity() bool { return s == Entity || s == EntityDefault }

// OfPlan reports whether the source is a plan's: Plan or PlanDefault.
func (s Source) OfPlan() bool { return s == Plan || s == PlanDefault }

// IsOwn reports whether the source was made for an entity or for its plan. It is false for sources of everyone,
// of the call, and of Options.
func (s Source) IsOwn() bool { return s.OfEntity() || s.OfPlan() }
