package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

type orgsDeleteCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	destroys
}

// Run deletes an organisation with its apps and credentials, after a confirmation, and continues an interrupted
// deletion without one. A dry run prints the objects to delete and changes nothing.
func (c orgsDeleteCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.deleteAccount(ctx, out, account{Org: c.Org}, c.destroys)
}

type appsDeleteCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" help:"The app's id."`
	destroys
}

// Run deletes an app with its credentials, after a confirmation, and continues an interrupted deletion without
// one. A dry run prints the objects to delete and changes nothing.
func (c appsDeleteCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.deleteAccount(ctx, out, account{c.Org, c.App}, c.destroys)
}

// deletionJSON is the result of a deletion, as JSON.
type deletionJSON struct {
	Org    string `json:"org_id"`
	App    string `json:"app_id,omitempty"`
	Apps   int    `json:"apps"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// deleteAccount deletes an organisation or an app with its credentials, after a confirmation, and prints the
// result. If it is gone or being deleted it asks nothing and deletes the rest. A dry run prints the deletion
// without doing it; a failure tells how to continue.
func (b *budgetCmd) deleteAccount(ctx context.Context, out *term.Output, of account, how destroys) error {
	return b.onCredentials(ctx, out, nil, func(k *budget.Keeper, store *credentials.Store) error {
		d, err := of.findDoomed(ctx, k)
		if err != nil {
			return err
		}
		j := deletionJSON{of.Org, of.App, d.apps, how.DryRun}
		if how.DryRun {
			return out.Show(j, func() {
				fmt.Fprintf(out, "Would %s %s.\nDry run: nothing was changed.\n", d.chooseVerb("delete", "go on with the deletion of"), d.describeAll())
			})
		}
		if !d.gone { // a continued deletion needs no confirmation
			question := "Its calls fail within 5 minutes, and its credentials and tokens end. What was counted is kept until its time ends. Delete " + d.describeAll() + "?"
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
			return explainUndone(err)
		}
		return out.Show(j, func() {
			fmt.Fprintf(out, "%s %s.\n", d.chooseVerb("Deleted", "Completed the deletion of"), d.describeAll())
		})
	})
}

// explainUndone adds to the error of a failed deletion that the same command continues it. It returns an error
// of invalid input, or of a missing organisation or app, as it is.
func explainUndone(err error) error {
	if _, invalid := errors.AsType[*fault.ValidationError](err); invalid || errors.Is(err, budget.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w; the finished part stays; run the same command to continue", err)
}

// doomed is an organisation or app before its deletion.
type doomed struct {
	account
	apps int  // number of apps of an organisation
	gone bool // its deletion has begun, or it never existed
}

// findDoomed returns the organisation or app before its deletion, with the number of an organisation's apps. If
// it does not exist or its deletion has begun, gone is set and the error is nil.
func (c account) findDoomed(ctx context.Context, k *budget.Keeper) (doomed, error) {
	d := doomed{account: c}
	err := d.readDoomed(ctx, k)
	if errors.Is(err, budget.ErrNotFound) {
		return doomed{account: c, gone: true}, nil
	}
	return d, err
}

// readDoomed adds the number of the organisation's apps to d.apps; for an app it only checks that the app
// exists. It fails with budget.ErrNotFound if the app or organisation does not exist.
func (d *doomed) readDoomed(ctx context.Context, k *budget.Keeper) error {
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

// chooseVerb returns first, or further if d.gone is set: the deletion has begun before, or nothing exists to
// delete.
func (d doomed) chooseVerb(first, further string) string {
	if d.gone {
		return further
	}
	return first
}

// describeAll names the deleted organisation or app in a sentence. It adds the number of apps of an
// organisation whose deletion has not begun.
func (d doomed) describeAll() string {
	if d.App != "" || d.gone {
		return d.describe()
	}
	return d.describe() + " with " + notation.CountText(d.apps, "app")
}
