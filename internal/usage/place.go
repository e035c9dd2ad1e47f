package usage

import "github.com/dynalimit/dynalimit/internal/schema"

// Place is where an entity stands, by its record and those of the entities above it. It is
// false for an entity without a record: then it cascades into nothing and is on no plan.
func Place(entity string, record func(string) (schema.EntityRecord, bool)) (schema.UsagePlace, bool) {
	e, there := record(entity)
	if !there {
		return schema.UsagePlace{Top: true}, false
	}
	p := schema.UsagePlace{Parent: e.ParentID, Plan: e.Plan, Top: !cascades(e)}
	p.PlanTop = e.Plan != ""
	seen := map[string]bool{entity: true}
	for up := e; p.PlanTop && cascades(up) && !seen[up.ParentID]; {
		seen[up.ParentID] = true
		up, there = record(up.ParentID)
		p.PlanTop = !there || up.Plan != e.Plan
	}
	return p, true
}

func cascades(e schema.EntityRecord) bool { return e.Cascade && e.ParentID != "" }
