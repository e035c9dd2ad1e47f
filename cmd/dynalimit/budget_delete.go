package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

type orgsDeleteCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	destroys
}

func (c orgsDeleteCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.delete(ctx, out, account{Org: c.Org}, c.destroys)
}

type appsDeleteCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" help:"The app's id."`
	destroys
}

func (c appsDeleteCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.delete(ctx, out, account{c.Org, c.App}, c.destroys)
}

// deletionJSON is what a deletion came to, for programs.
type deletionJSON struct {
	Org    string `json:"org_id"`
	App    string `json:"app_id,omitempty"`
	Apps   int    `json:"apps"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// delete deletes an organisation or an app, with its credentials.
func (b *budgetCmd) delete(ctx context.Context, out *term.Output, of account, how destroys) error {
	return b.onCredentials(ctx, out, nil, func(k *budget.Keeper, store *credentials.Store) error {
		d, err := of.doomed(ctx, k)
		if err != nil {
			return err
		}
		j := deletionJSON{of.Org, of.App, d.apps, how.DryRun}
		if how.DryRun {
			return out.Show(j, func() {
				fmt.Fprintf(out, "Would %s %s.\nDry run: nothing was changed.\n", d.verb("delete", "go on with the deletion of"), d.whole())
			})
		}
		if !d.gone { // to go on nobody is asked
			question := "Its calls fail within 5 minutes, and its credentials and tokens end. What was counted is kept until its time ends. Delete " + d.whole() + "?"
			if err := how.confirm(ctx, out, question, cmp.Or(d.App, d.Org)); err != nil {
				return err
			}
		}
		if d.App != "" {
			err = k.Setup().DeleteApp(ctx, d.Org, d.App, store.Delete)
		} else {
			err = k.Setup().DeleteOrg(ctx, d.Org, store.Delete)
		}
		if err != nil {
			return undone(err)
		}
		return out.Show(j, func() { fmt.Fprintf(out, "%s %s.\n", d.verb("Deleted", "Completed the deletion of"), d.whole()) })
	})
}

// undone says that a deletion which failed goes on where it stopped.
func undone(err error) error {
	if _, invalid := errors.AsType[*fault.ValidationError](err); invalid || errors.Is(err, budget.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w; what was done stays done, and the same command goes on", err)
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
		_, err := k.Setup().GetApp(ctx, d.Org, d.App)
		return err
	}
	if _, err := k.Setup().GetOrg(ctx, d.Org); err != nil {
		return err
	}
	for _, err := range k.Setup().Apps(ctx, d.Org) {
		if err != nil {
			return err
		}
		d.apps++
	}
	return nil
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
