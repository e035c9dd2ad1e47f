package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

type appsListCmd struct {
	Org string `arg:"" help:"The organisation's id."`
}

// Run prints the apps of an organisation with their own ordering and name, or a hint if it has no apps. It
// fails if the organisation does not exist.
func (c appsListCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showExisting(ctx, b, out, c.Org, "", func(k *budget.Keeper) ([]appJSON, error) {
		all := []appJSON{}
		for app, err := range k.Setup().Apps(ctx, c.Org) {
			if err != nil {
				return nil, err
			}
			all = append(all, appJSON{Org: c.Org, App: app})
		}
		return all, nil
	}, func(all []appJSON) {
		if len(all) == 0 {
			fmt.Fprintln(out, "No apps yet: one appears with its first call, or with 'dynalimit budget apps put'.")
		}
		for _, j := range all {
			ordering := cmp.Or(strings.Join(j.Ordering, " → "), "ordering of the organisation")
			fmt.Fprintf(out, "%-24s %s%s\n", j.ID, ordering, namedSuffix(out, j.Name))
		}
	})
}

type appsShowCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" help:"The app's id."`
}

// Run prints an app's own configuration, without inherited fields. It fails if the app does not exist.
func (c appsShowCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) (appJSON, error) {
		app, err := k.Setup().GetApp(ctx, c.Org, c.App)
		return appJSON{Org: c.Org, App: app}, err
	}, func(j appJSON) { j.printText(out) })
}

type appsPutCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" help:"The app's id."`
	policyFlags
}

// Run creates an app, or changes the fields of the given flags. If another caller changes the app meanwhile, it
// reads the app again and retries, up to putTries times. It prints the stored app and its labels without a
// price.
func (c appsPutCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) (appJSON, error) {
		j := appJSON{Org: c.Org}
		err := retryOnConflict(ctx, func() error {
			app, err := appToChange(ctx, k, c.Org, c.App)
			if err != nil {
				return err
			}
			c.applyFlags(&app.Name, &app.Ordering, &app.Quotas, &app.Models, &app.TightPercent)
			j.App, err = k.Setup().PutApp(ctx, c.Org, app)
			return err
		})
		if err == nil {
			j.Unpriced, err = unpricedLabels(ctx, k, c.Org, c.App)
		}
		return j, err
	}, func(j appJSON) { j.printText(out) })
}
