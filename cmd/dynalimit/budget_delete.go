package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// deletes are the flags of the deletion of an organisation or an app.
type deletes struct {
	Purge bool `help:"Remove what was counted, too. It reads the whole usage table."`
	destroys
}

type orgsDeleteCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	deletes
}

func (c orgsDeleteCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return c.run(ctx, b, out, account{Org: c.Org})
}

type appsDeleteCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" help:"The app's id."`
	deletes
}

func (c appsDeleteCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return c.run(ctx, b, out, account{c.Org, c.App})
}

// deletionJSON is what a deletion came to, for programs.
type deletionJSON struct {
	Org      string     `json:"org_id"`
	App      string     `json:"app_id,omitempty"`
	Complete bool       `json:"complete"`
	Again    *time.Time `json:"again_at,omitempty"`
	Apps     int        `json:"apps"`
	Purged   int        `json:"items_purged"`
	DryRun   bool       `json:"dry_run,omitempty"`
}

// run deletes an organisation or an app, with its credentials.
func (c deletes) run(ctx context.Context, b *budgetCmd, out *term.Output, of account) error {
	b.dryRun = c.DryRun
	return b.onCredentials(ctx, out, nil, func(k *budget.Keeper, store *credentials.Store) error {
		d, err := of.doomed(ctx, k)
		if err != nil {
			return err
		}
		if err := c.agreed(ctx, out, d); err != nil {
			return err
		}
		report, err := d.delete(ctx, k, budget.Deletion{Purge: c.Purge, Revoke: store.Delete, Progress: b.purging(ctx, out)})
		j := deletionJSON{of.Org, of.App, report.Complete, moment(report.Again), report.Apps, report.Purged, c.DryRun}
		if c.DryRun && (checked(err) || err == nil && !report.Complete) {
			j.Apps, j.Purged = d.apps, 0
			return out.Show(j, func() {
				fmt.Fprintf(out, "Would %s %s%s.\nDry run: nothing was changed.\n", d.verb("delete", "go on with the deletion of"), d.whole(), c.counted())
			})
		}
		if err != nil {
			return undone(err)
		}
		return out.Show(j, func() { j.print(out, d) })
	})
}

// undone says that a deletion which failed goes on where it stopped.
func undone(err error) error {
	if _, invalid := errors.AsType[*budget.ValidationError](err); invalid || errors.Is(err, budget.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w; what was done stays done, and the same command goes on", err)
}

// counted says what becomes of what was counted.
func (c deletes) counted() string {
	if c.Purge {
		return ", with all that was counted"
	}
	return ""
}

// doomed is what is to be deleted, as it was before.
type doomed struct {
	account
	apps int  // of an organisation
	gone bool // its deletion has begun already, or it never was
}

// doomed looks at what is to be deleted.
func (c account) doomed(ctx context.Context, k *budget.Keeper) (doomed, error) {
	d := doomed{account: c}
	err := d.look(ctx, k)
	if errors.Is(err, budget.ErrNotFound) {
		return doomed{account: c, gone: true}, nil
	}
	return d, err
}

func (d *doomed) look(ctx context.Context, k *budget.Keeper) error {
	if d.App != "" {
		_, err := k.GetApp(ctx, d.Org, d.App)
		return err
	}
	if _, err := k.GetOrg(ctx, d.Org); err != nil {
		return err
	}
	for _, err := range k.Apps(ctx, d.Org) {
		if err != nil {
			return err
		}
		d.apps++
	}
	return nil
}

func (d doomed) delete(ctx context.Context, k *budget.Keeper, how budget.Deletion) (budget.DeletionReport, error) {
	if d.App != "" {
		return k.DeleteApp(ctx, d.Org, d.App, how)
	}
	return k.DeleteOrg(ctx, d.Org, how)
}

// verb is what is done: the former, or the latter to what is gone already.
func (d doomed) verb(first, further string) string {
	if d.gone {
		return further
	}
	return first
}

// whole names what is deleted with what belongs to it.
func (d doomed) whole() string {
	if d.App != "" || d.gone {
		return d.who()
	}
	return d.who() + " with " + notation.Many(d.apps, "app")
}

// command is what completes the deletion.
func (d doomed) command() string {
	if d.App != "" {
		return "'dynalimit budget apps delete " + d.words() + "'"
	}
	return "'dynalimit budget orgs delete " + d.words() + "'"
}

// agreed asks, unless it was agreed before: to go on with a deletion nobody is asked, but
// what was counted is removed only after a question.
func (c deletes) agreed(ctx context.Context, out *term.Output, d doomed) error {
	if c.DryRun || d.gone && !c.Purge {
		return nil
	}
	question := "Its calls fail within 5 minutes, its credentials and tokens end, and what was counted is kept. Delete "
	switch {
	case d.gone:
		question = "What is kept of what was counted is removed for good. Go on with the deletion of "
	case c.Purge:
		question = "Its calls fail within 5 minutes, its credentials and tokens end, and what was counted is removed for good. Delete "
	}
	return c.confirm(ctx, out, question+d.whole()+"?", cmp.Or(d.App, d.Org))
}

// purging tells how far a purge is.
func (b *budgetCmd) purging(ctx context.Context, out *term.Output) func(budget.DeletionReport) {
	var p *progress
	return func(r budget.DeletionReport) {
		if p == nil {
			usage := *b.globals
			usage.Table = b.Usage
			p = usage.watch(ctx, out)
		}
		p.tell(1, int64(r.Scanned), strconv.Itoa(r.Purged)+" removed")
	}
}

func (j deletionJSON) print(out *term.Output, d doomed) {
	switch {
	case d.gone && j.Complete && j.Purged == 0:
		fmt.Fprintf(out, "Nothing is left of the deletion of %s.\n", d.who())
		return
	case j.Complete:
		fmt.Fprintf(out, "%s %s.\n", d.verb("Deleted", "Completed the deletion of"), d.whole())
	default:
		fmt.Fprintf(out, "%s %s. Other processes may have counted for it until %s:\ngive %s again then, which completes it. Until then it cannot be put again.\n",
			d.verb("Deleted", "Went on with the deletion of"), d.whole(), out.Bold(momentText(j.Again)), d.command())
	}
	fields(out, "items removed", countOf(j.Purged))
}

// countOf is a number for people; "" for none.
func countOf(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
