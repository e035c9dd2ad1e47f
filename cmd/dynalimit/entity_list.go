package main

import (
	"context"
	"iter"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// showEntities shows the entities of all on the filter's plan, up to its limit, as JSON or as rows; it reads no
// further. none is the text for an empty list. It returns the first error of reading or writing.
func (f entityFilter) showEntities(out *term.Output, all iter.Seq2[admin.Entity, error], none string) error {
	wanted := all
	if f.Plan != "" {
		wanted = func(yield func(admin.Entity, error) bool) {
			for e, err := range all {
				if (err != nil || e.Plan == f.Plan) && !yield(e, err) {
					return
				}
			}
		}
	}
	return term.Stream(out, term.First(wanted, f.Limit), term.List[admin.Entity]{
		Titles: []string{"ENTITY", "PLAN", "PARENT", "NAME"},
		Row:    entityRow,
		JSON:   func(e admin.Entity) any { return entityToJSON(e) },
		None:   none,
	})
}

// entityRow returns the cells of an entity's row: id, plan, parent, name. It adds "(by all sources)" or
// "(detached)" to the parent, and a remark to the name of an entity in deletion.
func entityRow(e admin.Entity) []string {
	parent := orDash(e.ParentID)
	switch {
	case e.Cascade:
		parent += " (by all sources)"
	case e.Detached && e.ParentID != "":
		parent += " (detached)"
	}
	name := orDash(e.Name)
	if e.Deleting {
		name = "(being deleted: 'entity delete' finishes it) " + e.Name
	}
	return []string{e.ID, orDash(e.Plan), parent, name}
}

// firstOf returns the first element of a sequence and reads no further. found is false for an empty sequence,
// and if its first element is an error, which firstOf returns.
func firstOf[T any](all iter.Seq2[T, error]) (value T, found bool, err error) {
	for value, err := range all {
		return value, err == nil, err
	}
	return value, false, nil
}

// recordOf returns an entity's record, even if its deletion has begun. Without a record it returns no error,
// but an entity with Version 0 and a zero CreatedAt.
func recordOf(ctx context.Context, repo *dynalimit.Repository, id string) (admin.Entity, error) {
	found, err := admin.New(repo).Entities.GetMany(ctx, []string{id})
	if err != nil {
		return admin.Entity{}, err
	}
	return found[0], nil
}
