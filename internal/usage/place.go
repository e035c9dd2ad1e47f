package usage

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Place is where an entity stands, by its record and those of the entities above it. It is
// false for an entity without a record: then it cascades into nothing and is on no plan.
func Place(entity string, record func(string) (schema.EntityRecord, bool)) (schema.UsagePlace, bool) {
	e, there := record(entity)
	if !there {
		return schema.UsagePlace{}, false
	}
	return schema.UsagePlace{Parent: e.ParentID, Plan: e.Plan, Above: above(entity, e, record)}, true
}

// above are the entities that one cascades into, the nearest first: those that a call of it
// charges too, as far as they have limits.
func above(entity string, e schema.EntityRecord, record func(string) (schema.EntityRecord, bool)) (all []string) {
	for there := true; there && cascades(e); e, there = record(e.ParentID) {
		if e.ParentID == entity || slices.Contains(all, e.ParentID) || len(all) == schema.MaxDepth-1 {
			break
		}
		all = append(all, e.ParentID)
	}
	return all
}

func cascades(e schema.EntityRecord) bool { return e.Cascade && e.ParentID != "" }

// Counts reports whether what an entity used of a limit counts in a total: unless one of
// those above it counted the same limit too. A parent that nothing limits, or that has other
// limits, counted nothing of it.
func Counts(above []string, counted func(entity string) bool) bool {
	return !slices.ContainsFunc(above, counted)
}

// WithoutLoops are those above an entity that do not cascade into it themselves. Two may each
// be found above the other, where one was moved meanwhile: then one of them has to count. of
// are those above an entity, without loops.
func WithoutLoops(entity string, above []string, of func(entity string) []string) []string {
	var leads func(string) bool
	leads = func(from string) bool { return from == entity || slices.ContainsFunc(of(from), leads) }
	return slices.DeleteFunc(slices.Clone(above), leads)
}
