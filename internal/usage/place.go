package usage

import "github.com/dynalimit/dynalimit/internal/schema"

// Place returns the plan and parent in an entity's record. It is empty without a record.
func Place(e *schema.EntityRecord) schema.UsagePlace {
	if e == nil {
		return schema.UsagePlace{}
	}
	return schema.UsagePlace{Parent: e.ParentID, Plan: e.Plan}
}
