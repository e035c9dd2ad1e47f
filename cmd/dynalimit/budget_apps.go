package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

type appsListCmd struct {
	Org string `arg:"" help:"The organisation's id."`
}

func (c appsListCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.with(ctx, out, func(k *budget.Keeper) error {
		if _, err := k.Setup().GetOrg(ctx, c.Org); err != nil {
			return err
		}
		all := []appJSON{}
		for app, err := range k.Setup().Apps(ctx, c.Org) {
			if err != nil {
				return err
			}
			all = append(all, appJSON{Org: c.Org, App: app})
		}
		return out.Show(all, func() { printApps(out, all) })
	})
}

func printApps(out *term.Output, all []appJSON) {
	if len(all) == 0 {
		fmt.Fprintln(out, "No apps yet: one appears with its first call, or with 'dynalimit budget apps put'.")
	}
	for _, j := range all {
		ordering := "ordering of the organisation"
		if len(j.Ordering) > 0 {
			ordering = strings.Join(j.Ordering, " → ")
		}
		fmt.Fprintf(out, "%-24s %s%s\n", j.ID, ordering, named(out, j.Name))
	}
}

type appsShowCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" help:"The app's id."`
}

func (c appsShowCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.with(ctx, out, func(k *budget.Keeper) error {
		app, err := k.Setup().GetApp(ctx, c.Org, c.App)
		if err != nil {
			return err
		}
		j := appJSON{Org: c.Org, App: app}
		return out.Show(j, func() { j.print(out) })
	})
}

type appsPutCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" help:"The app's id."`
	policyFlags
}

func (c appsPutCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.with(ctx, out, func(k *budget.Keeper) error {
		app, err := k.Setup().GetApp(ctx, c.Org, c.App)
		if errors.Is(err, budget.ErrNotFound) {
			app, err = budget.App{ID: c.App}, nil
		}
		if err != nil {
			return err
		}
		c.apply(&app.Name, &app.Ordering, &app.Quotas, &app.Models, &app.TightPercent)
		if app, err = k.Setup().PutApp(ctx, c.Org, app); err != nil {
			return err
		}
		j := appJSON{Org: c.Org, App: app}
		if j.Unpriced, err = unpriced(ctx, k, c.Org, c.App); err != nil {
			return err
		}
		return out.Show(j, func() { j.print(out) })
	})
}
