package config

import "github.com/dynalimit/dynalimit/internal/schema"

// Level names a level of stored configuration.
type Level string

// The levels, the most specific first.
const (
	Entity        Level = "entity"         // the entity's record for the resource
	EntityDefault Level = "entity_default" // the entity's record for every resource
	Plan          Level = "plan"           // the plan's record for the resource
	PlanDefault   Level = "plan_default"   // the plan's record for every resource
	Resource      Level = "resource"       // the resource's record for every entity
	System        Level = "system"         // the system's record
)

// OfEntity reports whether the level is the entity's own.
func (l Level) OfEntity() bool { return l == Entity || l == EntityDefault }

// OfPlan reports whether the level is a plan's.
func (l Level) OfPlan() bool { return l == Plan || l == PlanDefault }

// Items are the items of the levels; nil for one that does not exist.
type Items struct {
	Entity, EntityDefault, Plan, PlanDefault, Resource, System schema.Item
}

// layer is the item of one level.
type layer struct {
	level Level
	item  schema.Item
}

// layers are the items in the order of their levels, the most specific first.
func (i *Items) layers() [6]layer {
	return [...]layer{
		{Entity, i.Entity},
		{EntityDefault, i.EntityDefault},
		{Plan, i.Plan},
		{PlanDefault, i.PlanDefault},
		{Resource, i.Resource},
		{System, i.System},
	}
}
