package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

type quotasCmd struct {
	Show quotasShowCmd `cmd:"" help:"Show the quotas in force and the remaining money."`
	Set  quotasSetCmd  `cmd:"" help:"Set the quotas of labels."`
}

// quotasJSON is the effective policy with the state of its daily quotas.
type quotasJSON struct {
	Org       string      `json:"org_id"`
	App       string      `json:"app_id,omitempty"`
	Inherited bool        `json:"inherited"`
	Labels    []quotaJSON `json:"labels"`
}

type quotaJSON struct {
	Label       string        `json:"label"`
	QuotaMicros int64         `json:"quota_usd_micros"`
	LeftMicros  int64         `json:"left_usd_micros"`
	Status      prices.Status `json:"status"`
}

type quotasShowCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" optional:"" help:"An app's id. Default: the organisation."`
}

// Run prints for each label of an organisation or app the quota in force and the rest of today, in dollars. It
// fails if the organisation or app does not exist.
func (c quotasShowCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showExisting(ctx, b, out, c.Org, c.App, func(k *budget.Keeper) (quotasJSON, error) {
		return quotasInForce(ctx, k, c.Org, c.App)
	}, func(j quotasJSON) { j.printText(out) })
}

// quotasInForce returns each label's daily quota, rest of today and status, of an organisation or, unless app
// is "", of an app. Amounts are micro-dollars; the rest is negative beyond the quota. Inherited is set if the
// app's own quotas are missing or ignored.
func quotasInForce(ctx context.Context, k *budget.Keeper, org, app string) (quotasJSON, error) {
	j := quotasJSON{Org: org, App: app, Inherited: app != "", Labels: []quotaJSON{}}
	o, err := k.Setup().GetOrg(ctx, org)
	if err != nil {
		return j, err
	}
	if app != "" && o.Scope == budget.ScopeApp {
		a, err := k.Setup().GetApp(ctx, org, app)
		if err != nil && !errors.Is(err, budget.ErrNotFound) {
			return j, err
		}
		j.Inherited = len(a.Quotas) == 0
	}
	totals, err := k.Totals(ctx, org, app, "")
	if err != nil {
		return j, err
	}
	for _, l := range totals.Labels {
		j.Labels = append(j.Labels, quotaJSON{l.Label, l.Quota, l.Quota - l.CostMicros, l.Status})
	}
	return j, nil
}

// printText prints the quota and the rest of each label in dollars for people, and whether the app inherits
// them from the organisation.
func (j quotasJSON) printText(out *term.Output) {
	whose := j.Org
	if j.App != "" {
		whose += " " + j.App
	}
	fmt.Fprintf(out, "%s", out.Bold(whose))
	if j.Inherited {
		fmt.Fprint(out, out.Dim("  inherited from the organisation"))
	}
	fmt.Fprintln(out)
	for _, l := range j.Labels {
		fmt.Fprintf(out, "  %-12s %s a day, %s left\n", l.Label, dollars(l.QuotaMicros), dollars(l.LeftMicros))
	}
}

type quotasSetCmd struct {
	Org   string             `arg:"" help:"The organisation's id."`
	Quota map[string]dollars `arg:"" optional:"" help:"The daily quota of a label, as LABEL=USD." placeholder:"LABEL=USD"`
	App   string             `help:"Set them for one app; it then inherits none."`
}

// Validate refuses a command without any quota.
func (c quotasSetCmd) Validate() error {
	if len(c.Quota) == 0 {
		return errors.New("nothing to set: name a label as LABEL=USD")
	}
	return nil
}

// Run sets the named quotas of the organisation, or of one app with --app, and prints the quotas in force
// there. If another caller changes them meanwhile, it reads them again and retries.
func (c quotasSetCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) (quotasJSON, error) {
		if err := retryOnConflict(ctx, func() error { return c.putQuotas(ctx, k) }); err != nil {
			return quotasJSON{}, err
		}
		return quotasInForce(ctx, k, c.Org, c.App)
	}, func(j quotasJSON) { j.printText(out) })
}

// putQuotas reads the organisation, or the app with --app, and stores the named quotas there once, without a
// retry. It keeps the quotas of other labels, and refuses labels outside the orderings. It fails with
// budget.ErrConflict if another caller writes between.
func (c quotasSetCmd) putQuotas(ctx context.Context, k *budget.Keeper) error {
	org, err := k.Setup().GetOrg(ctx, c.Org)
	if err != nil {
		return err
	}
	if c.App != "" {
		return c.putAppQuotas(ctx, k, org)
	}
	if err := c.checkLabels(ctx, k, org); err != nil {
		return err
	}
	org.Quotas = overlayMap(org.Quotas, inMicros(c.Quota))
	_, err = k.Setup().PutOrg(ctx, org)
	return err
}

// checkLabels returns an error if a label of the command is in no ordering: neither org's nor one of its stored
// apps'. It reads all apps for that.
func (c quotasSetCmd) checkLabels(ctx context.Context, k *budget.Keeper, org budget.Org) error {
	ordering := slices.Clone(org.Ordering)
	for app, err := range k.Setup().Apps(ctx, c.Org) {
		if err != nil {
			return err
		}
		ordering = append(ordering, app.Ordering...)
	}
	slices.Sort(ordering)
	ordering = slices.Compact(ordering)
	return checkInOrdering(sortedKeys(c.Quota), ordering)
}

// putAppQuotas stores the named quotas at the app, which it creates if missing. It keeps the app's other quotas
// or, without any, copies those of the organisation. It fails if the organisation's scope ignores quotas of
// apps, and for a label outside the ordering.
func (c quotasSetCmd) putAppQuotas(ctx context.Context, k *budget.Keeper, org budget.Org) error {
	if org.Scope == budget.ScopeOrg {
		return fmt.Errorf("the quotas of %s are the organisation's, those of apps are ignored: leave out --app", c.App)
	}
	app, err := appToChange(ctx, k, org.ID, c.App)
	if err != nil {
		return err
	}
	if err := checkInOrdering(sortedKeys(c.Quota), orderingOf(app, org)); err != nil {
		return err
	}
	app.Quotas = overlayMap(quotasOf(app, org), inMicros(c.Quota))
	_, err = k.Setup().PutApp(ctx, org.ID, app)
	return err
}

// orderingOf returns the app's ordering or, if empty, the organisation's.
func orderingOf(app budget.App, org budget.Org) []string {
	if len(app.Ordering) > 0 {
		return app.Ordering
	}
	return org.Ordering
}

// quotasOf returns an app's own quotas, in micro-dollars by label: the map itself. Without any it returns a new
// map with those of the organisation for the labels of the app's ordering.
func quotasOf(app budget.App, org budget.Org) map[string]int64 {
	if len(app.Quotas) > 0 {
		return app.Quotas
	}
	quotas := map[string]int64{}
	for _, label := range orderingOf(app, org) {
		if q, ok := org.Quotas[label]; ok {
			quotas[label] = q
		}
	}
	return quotas
}
