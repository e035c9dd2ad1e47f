package main

import (
	"context"
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// upgradeJSON is an upgrade as JSON: the required generations of limit kinds before and after.
type upgradeJSON struct {
	Table  string `json:"table"`
	Before int64  `json:"before"`
	Now    int64  `json:"now"`
	DryRun bool   `json:"dry_run"`
}

// upgradeCmd permits a table everything that this version can store.
type upgradeCmd struct{ destroys }

// Run raises the table's generation of limit kinds after a confirmation, and prints it before and after.
// Processes of older versions then refuse the table. It changes nothing in a dry run, and if the table is
// upgraded already.
func (c upgradeCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	g = g.withoutNamespace()
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		before, now, err := admin.New(repo).Upgrade(ctx, true)
		if err == nil && before < now && !c.DryRun {
			question := fmt.Sprintf("Processes of older versions refuse the table %s within a minute. Has every process this version?", g.Table)
			if err := c.confirm(ctx, out, question, g.Table); err != nil {
				return err
			}
			before, now, err = admin.New(repo).Upgrade(ctx, false)
		}
		if err != nil {
			return err
		}
		return out.Show(upgradeJSON{Table: g.Table, Before: before, Now: now, DryRun: c.DryRun}, func() {
			switch {
			case before == now:
				fmt.Fprintln(out, "Nothing to change: the table is upgraded.")
			case c.DryRun:
				fmt.Fprintf(out, "Dry run: nothing was changed. It would upgrade %s from generation %d to %d: sources may extend less specific ones then, parents count by their own sources, and processes of older versions refuse the table.\n", g.Table, before, now)
			default:
				fmt.Fprintf(out, "Upgraded %s from generation %d to %d: sources may extend less specific ones, and parents count by their own sources.\n", g.Table, before, now)
			}
		})
	})
}
