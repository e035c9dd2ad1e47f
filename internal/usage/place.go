package usage

import "github.com/dynalimit/dynalimit/internal/schema"

// Place is the plan and the parents of an entity, by its record; empty without one.
func Place(e *schema.EntityRecord) schema.UsagePlace {
	if e == nil {
		return schema.UsagePlace{}
	}
	return schema.UsagePlace{Parent: e.ParentID, Plan: e.Plan}
}
