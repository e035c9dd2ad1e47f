package config

import (
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// Items are the items of the sources. Each is nil if it does not exist.
type Items struct {
	Entity, EntityDefault, Plan, PlanDefault, Resource, System schema.Item
}

// sourceItem is the item of one source.
type sourceItem struct {
	source sources.Source
	item   schema.Item
}

// bySource returns the items in the order of their sources, the most specific first.
func (i *Items) bySource() [6]sourceItem {
	return [...]sourceItem{
		{sources.Entity, i.Entity},
		{sources.EntityDefault, i.EntityDefault},
		{sources.Plan, i.Plan},
		{sources.PlanDefault, i.PlanDefault},
		{sources.Resource, i.Resource},
		{sources.System, i.System},
	}
}
