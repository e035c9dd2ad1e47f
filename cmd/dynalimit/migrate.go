package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// migrateCmd migrates a table of the older layout.
type migrateCmd struct {
	Attach bool `help:"Have parents count instead, by the limits made for them or for their plans, where a record from before does not say whether its parent does. It lists them first."`
	destroys
}

// migrateJSON is the result of a migration as JSON.
type migrateJSON struct {
	Complete   bool      `json:"complete"`
	Passes     int       `json:"passes"`
	Scanned    int64     `json:"items_read"`
	Buckets    int       `json:"buckets"`
	Configs    int       `json:"configs"`
	Found      int       `json:"found"`
	Turned     int       `json:"turned"`
	Superseded int       `json:"superseded"`
	Elsewhere  int       `json:"elsewhere"`
	Unreadable int       `json:"unreadable"`
	Malformed  []string  `json:"malformed,omitempty"`
	Left       int       `json:"left"`
	Listed     int       `json:"listed"`
	LastWrite  time.Time `json:"last_write,omitzero"`
	DryRun     bool      `json:"dry_run"`
	// Attach is set for --attach only.
	Attach *attachJSON `json:"attach,omitempty"`
}

// migrateToJSON converts the report of a migration to its form for --json, with the last write in UTC.
func migrateToJSON(r admin.MigrateReport, dryRun bool) migrateJSON {
	return migrateJSON{
		Complete: r.Complete, Passes: r.Passes, Scanned: r.Scanned, Buckets: r.Buckets, Configs: r.Configs, Found: r.Found, Turned: r.Turned,
		Superseded: r.Superseded, Elsewhere: r.Elsewhere, Unreadable: r.Unreadable, Malformed: r.Malformed, Left: r.Left, Listed: r.Listed,
		LastWrite: r.LastWrite.UTC(), DryRun: dryRun,
	}
}

// Run converts all items of the older layout to today's, after a confirmation; --attach calls attachParents
// instead. It prints the report even if the migration fails halfway. A dry run reads the table and changes
// nothing.
func (c migrateCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	if c.Attach {
		return c.attachParents(ctx, g, out)
	}
	g = g.withoutNamespace()
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		if !c.DryRun {
			question := fmt.Sprintf("Writers of the older layout must have been stopped. Turn all of its items in the table %s?", g.Table)
			if err := c.confirm(ctx, out, question, g.Table); err != nil {
				return err
			}
		}
		far := g.newProgress(ctx, out)
		report, err := admin.New(repo).Migrate(ctx, c.DryRun, func(p admin.MigrateReport) {
			far.reportPass(p.Passes, p.Scanned, fmt.Sprintf("%d of the older layout", p.Found))
		})
		if err != nil && report.Scanned == 0 {
			return err
		}
		if err == nil {
			noteUnattached(ctx, repo, out)
		}
		j := migrateToJSON(report, c.DryRun)
		return errors.Join(out.Show(j, func() { j.printText(out) }), adviseMigration(err))
	})
}

// adviseMigration adds the next step to the error of a migration that old writers or malformed items stopped.
// It returns other errors and nil as they are.
func adviseMigration(err error) error {
	switch {
	case errors.Is(err, admin.ErrLegacyWriters):
		return fmt.Errorf("%w; stop the writers of the older layout, and run 'dynalimit migrate' again", err)
	case errors.Is(err, admin.ErrLegacyMalformed):
		return fmt.Errorf("%w; correct or remove those items, and run 'dynalimit migrate' again", err)
	}
	return err
}

// printText prints the report of a migration or its dry run for people: numbers of converted and other items,
// malformed items, the last old write.
func (j migrateJSON) printText(out *term.Output) {
	switch {
	case j.Passes == 0:
		fmt.Fprintln(out, "Nothing of the older layout is left: the table says so.")
		return
	case j.DryRun && j.Found == 0:
		fmt.Fprintf(out, "Nothing of the older layout among %d items. Run 'dynalimit migrate' to have the table say so.\n", j.Scanned)
		return
	case j.DryRun:
		fmt.Fprintf(out, "Would turn %d items of the older layout, of %d, into %d buckets and %d configurations.\n", j.Turned, j.Scanned, j.Buckets, j.Configs)
	default:
		fmt.Fprintf(out, "Turned %d items of the older layout into %d buckets and %d configurations, in %d passes.\n", j.Turned, j.Buckets, j.Configs, j.Passes)
	}
	for _, row := range j.countOthers() {
		if row.n > 0 {
			fmt.Fprintf(out, "  %d %s\n", row.n, row.what)
		}
	}
	for _, what := range slices.Compact(slices.Clone(j.Malformed)) {
		fmt.Fprintln(out, "  "+out.Yellow(term.Plain(what)))
	}
	if !j.LastWrite.IsZero() {
		fmt.Fprintf(out, "  last written by the older layout: %s\n", j.LastWrite.Format(time.RFC3339))
	}
	if j.DryRun {
		fmt.Fprintln(out, "Dry run: nothing was changed.")
	}
}

// itemCount is a number of items with a description.
type itemCount struct {
	n    int
	what string
}

// countOthers returns the numbers of items that were not converted but removed, left, converted elsewhere or
// listed, each with its reason. A number may be 0. In a dry run the reasons are in the conditional.
func (j migrateJSON) countOthers() []itemCount {
	stay := min(j.Unreadable, j.Left)
	counts := []itemCount{
		{j.Superseded, "were removed: today's item was there already"},
		{j.Elsewhere, "were turned by calls meanwhile"},
		{stay, "cannot be understood, and stay"},
	}
	if j.DryRun {
		return append(counts, itemCount{j.Listed, "records of entities are in no list, and would be"})
	}
	return append(counts, itemCount{j.Listed, "records of entities were in no list, and are now"}, itemCount{j.Left - stay, "are left"})
}
