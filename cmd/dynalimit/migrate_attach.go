package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// attachJSON is the attached parents as JSON.
type attachJSON struct {
	Entities []entityJSON `json:"entities"`
	// Hottest is the parent with the most of these children, and Children its number.
	Hottest  string `json:"hottest,omitempty"`
	Children int    `json:"children,omitempty"`
	// Refused maps entities whose parents do not count yet to the reasons.
	Refused map[string]string `json:"refused,omitempty"`
}

// readUnattached returns the records with a parent that calls do not charge, and without the mark detached,
// which would say that this is intended. They are sorted by parent, then by id.
func readUnattached(ctx context.Context, repo *dynalimit.Repository) (found []admin.Entity, err error) {
	for e, err := range admin.New(repo).Entities.Unattached(ctx) {
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	slices.SortFunc(found, func(a, b admin.Entity) int {
		return cmp.Or(cmp.Compare(a.ParentID, b.ParentID), cmp.Compare(a.ID, b.ID))
	})
	return found, nil
}

// attachToJSON converts the records for --json, and sets Hottest to the parent with most of them and Children
// to their number.
func attachToJSON(found []admin.Entity) *attachJSON {
	j, below := &attachJSON{Entities: []entityJSON{}}, map[string]int{}
	for _, e := range found {
		j.Entities = append(j.Entities, entityToJSON(e))
		if below[e.ParentID]++; below[e.ParentID] > j.Children {
			j.Hottest, j.Children = e.ParentID, below[e.ParentID]
		}
	}
	return j
}

// attachParents makes calls charge the parents of records that do not decide that, after a confirmation. It
// prints the number of changed records and the refused ones, and fails if any were refused. A dry run only
// prints the records.
func (c migrateCmd) attachParents(ctx context.Context, g *globals, out *term.Output) error {
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		found, err := readUnattached(ctx, repo)
		if err != nil {
			return err
		}
		j := migrateJSON{Attach: attachToJSON(found), DryRun: c.DryRun}
		if c.DryRun || len(found) == 0 {
			return out.Show(j, func() { j.Attach.printText(out, c.DryRun) })
		}
		if !out.JSON {
			j.Attach.printText(out, true)
		}
		if err := c.confirm(ctx, out, fmt.Sprintf("Have the parents of %s count in the table %s?", notation.CountText(len(found), "record"), g.Table), g.Table); err != nil {
			return err
		}
		for i := range found {
			found[i].Detached = false
		}
		errs, err := admin.New(repo).Entities.UpdateMany(ctx, found)
		if err != nil {
			return err
		}
		j.Attach.Refused = map[string]string{}
		for i, err := range errs {
			if err != nil {
				j.Attach.Refused[found[i].ID] = refusalReason(err)
			}
			j.Attach.Entities[i] = entityToJSON(found[i])
			j.Attach.Entities[i].Detached = err != nil
		}
		err = out.Show(j, func() {
			fmt.Fprintf(out, "The parents of %s count. In force everywhere within a minute.\n", notation.CountText(len(found)-len(j.Attach.Refused), "record"))
			for _, id := range slices.Sorted(maps.Keys(j.Attach.Refused)) {
				fmt.Fprintf(out, "  %s: %s\n", term.Plain(id), out.Yellow(term.Plain(j.Attach.Refused[id])))
			}
		})
		if n := len(j.Attach.Refused); n > 0 {
			err = errors.Join(err, fmt.Errorf("the parents of %s do not count yet: correct the fault of each, and run the command again", notation.CountText(n, "record")))
		}
		return err
	})
}

// refusalReason returns the text of the error of a refused record. A validation error becomes "the parent" and
// its reason.
func refusalReason(err error) string {
	if invalid, ok := errors.AsType[*dynalimit.ValidationError](err); ok {
		return "the parent " + invalid.Reason
	}
	return err.Error()
}

// printText prints the records and the cost in write units of attaching their parents. If dry is true, it adds
// that nothing was changed yet. Without records it says only that.
func (j *attachJSON) printText(out *term.Output, dry bool) {
	if len(j.Entities) == 0 {
		fmt.Fprintln(out, "Nothing to attach: every record says whether its parent counts.")
		return
	}
	rows := make([][]string, len(j.Entities))
	for i, e := range j.Entities {
		rows[i] = []string{e.ID, e.ParentID}
	}
	out.Table([]string{"ENTITY", "PARENT"}, rows)
	fmt.Fprintf(out, "Calls of these %s would charge their parents too, by the limits made for those or for their plans:\n", notation.CountText(len(rows), "record"))
	fmt.Fprintf(out, "1 write unit more a call for each parent with limits. The most are below %s: %d.\n", term.Plain(j.Hottest), j.Children)
	if dry {
		fmt.Fprintln(out, "Nothing was changed yet.")
	}
}

// noteUnattached notes on out the number of records that do not decide whether calls charge the parent, unless
// it is 0. It reads them first, and ignores errors.
func noteUnattached(ctx context.Context, repo *dynalimit.Repository, out *term.Output) {
	if found, err := readUnattached(ctx, repo); err == nil && len(found) > 0 {
		out.Notef("dynalimit: the parents of %s do not count, that of %s for one: 'dynalimit migrate --attach --dry-run' lists them", notation.CountText(len(found), "record"), term.Plain(found[0].ID))
	}
}
