package main

import (
	"context"
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

type entityDeleteCmd struct {
	entityID
	destroys
}

// entityDeletion is the result of a deletion as JSON.
type entityDeletion struct {
	Entity   string      `json:"entity_id"`
	Record   *entityJSON `json:"record,omitempty"`
	Buckets  int         `json:"buckets"`
	Finished bool        `json:"finished_earlier_deletion"`
	Deleted  bool        `json:"deleted"`
	DryRun   bool        `json:"dry_run"`
}

// Run deletes an entity's record, limits and buckets, after a confirmation, and prints the result. It refuses
// an entity with children. A dry run prints the objects without deleting them.
func (c entityDeleteCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		d, err := c.readDeletion(ctx, repo)
		if err != nil {
			return err
		}
		if !c.DryRun {
			if err := c.confirm(ctx, out, d.confirmQuestion(), c.ID); err != nil {
				return err
			}
			if err := admin.New(repo).Entities.Delete(ctx, c.ID); err != nil {
				return err
			}
			d.Deleted = true
		}
		return out.Show(d, func() { d.printText(out) })
	})
}

// readDeletion returns the record that the deletion would remove, nil for a missing one, and the number of
// buckets. It deletes nothing. Finished is set if an earlier deletion has begun; an entity with children is an
// error.
func (c entityDeleteCmd) readDeletion(ctx context.Context, repo *dynalimit.Repository) (entityDeletion, error) {
	d := entityDeletion{Entity: c.ID, DryRun: c.DryRun}
	child, found, err := firstOf(admin.New(repo).Entities.Children(ctx, c.ID))
	if err != nil {
		return d, err
	}
	if found {
		return d, &failure{exitFailed, fmt.Errorf("%s is the parent of %s, at least: move its children with 'dynalimit entity update CHILD --parent ID' or delete them first; 'dynalimit entity children %s' lists them", c.ID, term.Plain(child.ID), c.ID)}
	}
	record, err := recordOf(ctx, repo, c.ID)
	if err != nil {
		return d, err
	}
	if record.Version != 0 || !record.CreatedAt.IsZero() {
		j := entityToJSON(record)
		d.Record, d.Finished = &j, record.Deleting
	}
	for _, err := range admin.New(repo).Buckets.List(ctx, c.ID) {
		if err != nil {
			return d, err
		}
		d.Buckets++
	}
	return d, nil
}

// confirmQuestion returns the text of the question before the deletion, or before the rest of an interrupted
// one. It asks nothing.
func (d entityDeletion) confirmQuestion() string {
	if d.Finished {
		return fmt.Sprintf("The deletion of %s began before. Finish it?", d.Entity)
	}
	return fmt.Sprintf("Calls go on by the limits of less specific sources. Delete %s: %s?", d.Entity, d.describe())
}

// describe lists the objects that the deletion removes, for a sentence: record, limits, and the number of
// buckets.
func (d entityDeletion) describe() string {
	record := "its record, its limits"
	if d.Record == nil {
		record = "its limits (it has no record)"
	}
	if d.Buckets == 0 {
		return record + " and no bucket"
	}
	return record + " and " + notation.CountText(d.Buckets, "bucket")
}

// printText prints for people the deleted objects, that an earlier deletion is finished, or the objects that a
// dry run would delete.
func (d entityDeletion) printText(out *term.Output) {
	switch {
	case d.DryRun:
		fmt.Fprintf(out, "Would delete %s: %s.\nDry run: nothing was changed.\n", out.Bold(d.Entity), d.describe())
	case d.Finished:
		fmt.Fprintf(out, "Deleted %s: what began before is done.\n", out.Bold(d.Entity))
	default:
		fmt.Fprintf(out, "Deleted %s: %s.\n", out.Bold(d.Entity), d.describe())
	}
}
