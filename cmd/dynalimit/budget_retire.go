package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/aggregator/archive"
	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

type retireCmd struct {
	Org     string  `arg:"" help:"The organisation's id."`
	Before  dayFlag `help:"The first day that is kept, like 2026-01-31, at least 70 days ago." placeholder:"DAY" required:""`
	Archive string  `help:"Folder for files with what goes, which are written before it goes." placeholder:"DIR" required:""`
	Keep    string  `help:"How long it stays in the table once it is in a file. Default: 7d." default:"7d" placeholder:"TIME"`
	destroys
}

// retirementJSON is what became of old days, for programs.
type retirementJSON struct {
	Org      string     `json:"org_id"`
	Before   string     `json:"before"`
	Exported int        `json:"exported"`
	Files    int        `json:"files"`
	Changed  int        `json:"changed"`
	Complete bool       `json:"complete"`
	Again    *time.Time `json:"again_at,omitempty"`
	DryRun   bool       `json:"dry_run,omitempty"`
}

func (c retireCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	b.dryRun = c.DryRun
	keep, err := notation.Period(c.Keep)
	switch {
	case err != nil:
		return badInput("--keep %w", err)
	case keep <= 0:
		return badInput("--keep %q is no time to come: write it like 12h or 7d", c.Keep)
	}
	if c.Archive == "" {
		return badInput("--archive is empty: name a folder, \".\" for this one")
	}
	return b.with(ctx, out, func(k *budget.Keeper) error {
		if _, err := k.GetOrg(ctx, c.Org); err != nil {
			return err
		}
		to, err := c.folder(ctx, out)
		if err != nil {
			return err
		}
		report, err := k.Retire(ctx, c.Org, budget.Retirement{Before: string(c.Before), Export: to, Keep: keep})
		j := retirementJSON{c.Org, string(c.Before), report.Exported, report.Files, report.Changed, report.Complete, moment(report.Again), c.DryRun}
		if c.DryRun && checked(err) {
			j.Exported, j.Files, j.Changed = 0, 0, 0
			return out.Show(j, func() {
				fmt.Fprintf(out, "Would write the days before %s into %s, and have them removed %s later.\nDry run: nothing was changed.\n", c.day(), term.Plain(c.Archive), c.Keep)
			})
		}
		if err != nil {
			return undone(err)
		}
		return out.Show(j, func() { c.print(out, j) })
	})
}

func (c retireCmd) day() string { return dateOf(string(c.Before)) }

// folder is where files go, once somebody agreed: nowhere in a dry run.
func (c retireCmd) folder(ctx context.Context, out *term.Output) (budget.Exporter, error) {
	if c.DryRun {
		return nowhere{}, nil
	}
	question := fmt.Sprintf("Days before %s are neither shown nor charged from now on. Write them into %s and have them removed?", c.day(), term.Plain(c.Archive))
	if err := c.confirm(ctx, out, question, c.Org); err != nil {
		return nil, err
	}
	if err := checkFolder(c.Archive); err != nil {
		return nil, badInput("%w", err)
	}
	return archive.Folder(c.Archive), nil
}

// nowhere keeps no files.
type nowhere struct{}

// Put does nothing.
func (nowhere) Put(context.Context, string, []byte) error { return nil }

func (c retireCmd) print(out *term.Output, j retirementJSON) {
	switch {
	case j.Again != nil:
		fmt.Fprintf(out, "Days before %s are kept no more. Other processes may have charged them until %s:\ngive the same command again then, which writes them into %s.\n",
			c.day(), out.Bold(momentText(j.Again)), term.Plain(c.Archive))
	case !j.Complete:
		fmt.Fprintf(out, "%s written to meanwhile: give the same command again, which takes the rest.\n", notation.Many(j.Changed, "item"))
	case j.Exported == 0:
		fmt.Fprintf(out, "Nothing is left of the days before %s.\n", c.day())
	default:
		fmt.Fprintf(out, "Wrote the days before %s into %s. DynamoDB removes them after %s.\n", c.day(), term.Plain(c.Archive), c.Keep)
	}
	fields(out, "items", countOf(j.Exported), "files", countOf(j.Files))
}
