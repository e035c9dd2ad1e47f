package config

import (
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

// Items are the items of the levels. Each is nil if it does not exist.
type Items struct {
	Entity, EntityDefault, Plan, PlanDefault, Resource, System schema.Item
}

// layer is the item of one level.
type layer struct {
	level levels.Level
	item  schema.Item
}

// layers returns the items in the order of their levels, the most specific first.
func (i *Items) layers() [6]layer {
	return [...]layer{
		{levels.Entity, i.Entity},
		{levels.EntityDefault, i.EntityDefault},
		{levels.Plan, i.Plan},
		{levels.PlanDefault, i.PlanDefault},
		{levels.Resource, i.Resource},
		{levels.System, i.System},
	}
}
