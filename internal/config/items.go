package config

import (
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// Items are the items of the levels. Each is nil if it does not exist.
type Items struct {
	Entity, EntityDefault, Plan, PlanDefault, Resource, System schema.Item
}

// layer is the item of one level.
type layer struct {
	level sources.Source
	item  schema.Item
}

// layers returns the items in the order of their levels, the most specific first.
func (i *Items) layers() [6]layer {
	return [...]layer{
		{sources.Entity, i.Entity},
		{sources.EntityDefault, i.EntityDefault},
		{sources.Plan, i.Plan},
		{sources.PlanDefault, i.PlanDefault},
		{sources.Resource, i.Resource},
		{sources.System, i.System},
	}
}
