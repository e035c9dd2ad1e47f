package usage

import "github.com/dynalimit/dynalimit/internal/schema"

// Place is where an entity stands, by its record; that of no record is none.
func Place(e *schema.EntityRecord) schema.UsagePlace {
	if e == nil {
		return schema.UsagePlace{}
	}
	return schema.UsagePlace{Parent: e.ParentID, Plan: e.Plan}
}
