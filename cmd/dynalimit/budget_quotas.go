package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

type quotasCmd struct {
	Show quotasShowCmd `cmd:"" help:"Show the quotas in force and what is left of them."`
	Set  quotasSetCmd  `cmd:"" help:"Set what labels may cost."`
}

// quotasJSON is the policy in force and where its daily quotas stand.
type quotasJSON struct {
	Org       string               `json:"org_id"`
	App       string               `json:"app_id,omitempty"`
	Inherited bool                 `json:"inherited"`
	Labels    []quotaJSON          `json:"labels"`
	Limits    []budget.PeriodQuota `json:"limits,omitempty"`
}

type quotaJSON struct {
	Label       string        `json:"label"`
	QuotaMicros int64         `json:"quota_micros"`
	LeftMicros  int64         `json:"left_micros"`
	Status      budget.Status `json:"status"`
}

type quotasShowCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" optional:"" help:"An app's id. Default: the organisation."`
}

// Help is shown by --help.
func (quotasShowCmd) Help() string {
	return `Examples:
  dynalimit budget quotas show 550e8400-e29b-41d4-a716-446655440000
  dynalimit budget quotas show 550e8400-e29b-41d4-a716-446655440000 chat --json`
}

// Run shows them.
func (c quotasShowCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.with(ctx, out, func(k *budget.Keeper) error {
		if err := known(ctx, k, c.Org, c.App); err != nil {
			return err
		}
		j, err := quotasInForce(ctx, k, c.Org, c.App)
		if err != nil {
			return err
		}
		return out.Show(j, func() { j.print(out) })
	})
}

func quotasInForce(ctx context.Context, k *budget.Keeper, org, app string) (quotasJSON, error) {
	j := quotasJSON{Org: org, App: app, Inherited: app != "", Labels: []quotaJSON{}}
	o, err := k.GetOrg(ctx, org)
	if err != nil {
		return j, err
	}
	j.Limits = o.Limits
	if app != "" && o.Scope == budget.ScopeApp {
		a, err := k.GetApp(ctx, org, app)
		if err != nil && !errors.Is(err, budget.ErrNotFound) {
			return j, err
		}
		j.Inherited = len(a.Quotas) == 0
		if len(a.Limits) > 0 {
			j.Limits = a.Limits
		}
	}
	totals, err := k.Totals(ctx, org, app, "")
	if err != nil {
		return j, err
	}
	for _, l := range totals.Labels {
		j.Labels = append(j.Labels, quotaJSON{l.Label, l.Quota, l.Quota - l.CostMicros - l.HeldMicros, l.Status})
	}
	return j, nil
}

func (j quotasJSON) print(out *term.Output) {
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
	policyJSON{Limits: j.Limits}.rows(out)
}

type quotasSetCmd struct {
	Org   string             `arg:"" help:"The organisation's id."`
	Quota map[string]dollars `arg:"" optional:"" help:"What a label may cost a day, as LABEL=USD." placeholder:"LABEL=USD"`
	App   string             `help:"Set them for one app; it then inherits none."`
	Limit map[string]dollars `help:"A further quota for a day, week or month, of all labels or of one, such as month=100 or week:premium=20. Repeat for more." placeholder:"PERIOD[:LABEL]=USD"`
	Drop  []string           `help:"A further quota to end." placeholder:"PERIOD[:LABEL]"`
	changes
}

// Help is shown by --help.
func (quotasSetCmd) Help() string {
	return `Labels that are not named keep their quotas. It holds at once: a quota below
what was spent makes the label exceeded.

Examples:
  dynalimit budget quotas set 550e8400-e29b-41d4-a716-446655440000 premium=12.50 standard=5
  dynalimit budget quotas set 550e8400-e29b-41d4-a716-446655440000 premium=3 --app chat
  dynalimit budget quotas set 550e8400-e29b-41d4-a716-446655440000 --limit month=250 --limit week:premium=40
  dynalimit budget quotas set 550e8400-e29b-41d4-a716-446655440000 --drop week:premium`
}

// Validate is called by the parser.
func (c quotasSetCmd) Validate() error {
	if len(c.Quota)+len(c.Limit)+len(c.Drop) == 0 {
		return errors.New("nothing to set: name a label as LABEL=USD, or give --limit or --drop")
	}
	for _, key := range append(slices.Collect(maps.Keys(c.Limit)), c.Drop...) {
		switch limitOf(key).Period {
		case budget.Day, budget.Week, budget.Month:
		default:
			return fmt.Errorf("%q is no period: write day, week or month, or one label's as week:premium", key)
		}
	}
	return nil
}

// limitOf reads PERIOD or PERIOD:LABEL.
func limitOf(key string) budget.PeriodQuota {
	period, label, _ := strings.Cut(key, ":")
	return budget.PeriodQuota{Period: budget.Period(period), Label: label}
}

// limits are some with those given in the place of theirs.
func (c quotasSetCmd) limits(old []budget.PeriodQuota) []budget.PeriodQuota {
	var out []budget.PeriodQuota
	for _, l := range old {
		key := string(l.Period)
		if l.Label != "" {
			key += ":" + l.Label
		}
		if _, given := c.Limit[key]; !given && !slices.Contains(c.Drop, key) {
			out = append(out, l)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Limit)) {
		l := limitOf(key)
		l.Micros = int64(c.Limit[key])
		out = append(out, l)
	}
	return out
}

// Run sets them.
func (c quotasSetCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	b.dryRun = c.DryRun
	return b.with(ctx, out, func(k *budget.Keeper) error {
		org, err := k.GetOrg(ctx, c.Org)
		if err != nil {
			return err
		}
		if c.App == "" {
			if err := c.inOrderings(ctx, k, org); err != nil {
				return err
			}
			org.Quotas, org.Limits = overlaid(org.Quotas, micros(c.Quota)), c.limits(org.Limits)
			_, err = k.PutOrg(ctx, org)
		} else {
			err = c.putApp(ctx, k, org)
		}
		if err != nil {
			return err
		}
		j, err := quotasInForce(ctx, k, c.Org, c.App)
		if err != nil {
			return err
		}
		return out.Show(j, func() { j.print(out) })
	})
}

// labels are those that are to have quotas.
func (c quotasSetCmd) labels() []string {
	labels := sortedKeys(c.Quota)
	for _, key := range sortedKeys(c.Limit) {
		labels = append(labels, limitOf(key).Label)
	}
	return labels
}

// inOrderings checks that the organisation or an app of it uses the labels.
func (c quotasSetCmd) inOrderings(ctx context.Context, k *budget.Keeper, org budget.Org) error {
	ordering := slices.Clone(org.Ordering)
	for app, err := range k.Apps(ctx, c.Org) {
		if err != nil {
			return err
		}
		for _, label := range app.Ordering {
			if !slices.Contains(ordering, label) {
				ordering = append(ordering, label)
			}
		}
	}
	return inOrdering(c.labels(), ordering)
}

func (c quotasSetCmd) putApp(ctx context.Context, k *budget.Keeper, org budget.Org) error {
	if org.Scope == budget.ScopeOrg {
		return fmt.Errorf("the quotas of %s are the organisation's, those of apps are ignored: leave out --app, or change the scope with 'dynalimit budget orgs put %s --scope app'", c.App, org.ID)
	}
	app, err := k.GetApp(ctx, org.ID, c.App)
	if errors.Is(err, budget.ErrNotFound) {
		app, err = budget.App{ID: c.App}, nil
	}
	if err != nil {
		return err
	}
	ordering := org.Ordering
	if len(app.Ordering) > 0 {
		ordering = app.Ordering
	}
	if err := inOrdering(c.labels(), ordering); err != nil {
		return err
	}
	if len(c.Quota) > 0 {
		app.Quotas = overlaid(ownOrInherited(app, org), micros(c.Quota))
	}
	if len(c.Limit)+len(c.Drop) > 0 {
		if len(app.Limits) == 0 {
			app.Limits = org.Limits
		}
		app.Limits = c.limits(app.Limits)
	}
	_, err = k.PutApp(ctx, org.ID, app)
	return err
}

// ownOrInherited are the quotas of an app's labels.
func ownOrInherited(app budget.App, org budget.Org) map[string]int64 {
	if len(app.Quotas) > 0 {
		return app.Quotas
	}
	ordering := org.Ordering
	if len(app.Ordering) > 0 {
		ordering = app.Ordering
	}
	quotas := map[string]int64{}
	for _, label := range ordering {
		if q, ok := org.Quotas[label]; ok {
			quotas[label] = q
		}
	}
	return quotas
}
