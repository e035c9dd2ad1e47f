package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/prices"
)

// collect is everything of a sequence.
func collect[T any](all iter.Seq2[T, error]) ([]T, error) {
	out := []T{}
	for v, err := range all {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

type recommendCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" help:"The app's id."`
}

type recommendJSON struct {
	Org     string       `json:"org_id"`
	App     string       `json:"app_id"`
	Label   string       `json:"model_label"`
	Model   string       `json:"model_id"`
	Mode    budget.Mode  `json:"mode"`
	Reason  string       `json:"reason"`
	Price   prices.Rates `json:"price"`
	ResetAt time.Time    `json:"reset_at"`
	labels  []prices.LabelStatus
}

// Run shows it. A service that asks remembers the label for the day; who looks does not.
func (c recommendCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	b.readOnly = !b.CreateTables
	return showOf(ctx, b, out, c.Org, c.App, func(k *budget.Keeper) (recommendJSON, error) {
		r, err := k.RecommendFresh(ctx, c.Org, c.App)
		return recommendJSON{c.Org, c.App, r.Label, r.Model, r.Mode, r.Reason, r.Price, r.ResetAt.UTC(), r.Labels}, err
	}, func(j recommendJSON) {
		fmt.Fprintf(out, "%s  %s, %s\n", out.Bold(j.Label), term.Plain(j.Model), j.Reason)
		for _, l := range j.labels {
			printLabelWith(out, budget.LabelTotals{
				Label: l.Label, CostMicros: l.SpendMicros, Quota: l.QuotaMicros, Percent: l.Percent, Status: l.Status,
			}, "")
		}
		fmt.Fprintf(out, "  %s %s\n", out.Dim("resets      "), j.ResetAt.Format(time.RFC3339))
	})
}

type adjustmentsCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" optional:"" help:"An app's id. Default: the whole organisation."`
}

func (c adjustmentsCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showOf(ctx, b, out, c.Org, c.App, func(k *budget.Keeper) ([]budget.Adjustment, error) {
		return collect(k.Setup().Adjustments(ctx, c.Org, c.App))
	}, func(all []budget.Adjustment) {
		if len(all) == 0 {
			fmt.Fprintln(out, "Nothing was charged or credited by hand.")
		}
		for _, a := range all {
			fmt.Fprintf(out, "%s  %-12s %-12s %12s  %s\n", out.Dim(dayName(a.Day)), a.App, a.Label, dollars(a.DeltaMicros), term.Plain(a.Reason))
		}
	})
}

type tagsCmd struct {
	Org string  `arg:"" help:"The organisation's id."`
	Tag string  `arg:"" help:"The tag, such as user."`
	App string  `help:"An app's id. Default: the whole organisation."`
	Day dayFlag `help:"The day, like 2026-01-31. Default: today." placeholder:"DAY"`
}

func (c tagsCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showOf(ctx, b, out, c.Org, c.App, func(k *budget.Keeper) ([]budget.TagTotal, error) {
		return k.TagTotals(ctx, c.Org, c.App, string(c.Day), c.Tag)
	}, func(totals []budget.TagTotal) {
		if len(totals) == 0 {
			fmt.Fprintf(out, "No calls with a tag %q.\n", c.Tag)
		}
		for _, t := range totals {
			fmt.Fprintf(out, "  %-24s %12s  %s\n", t.Value, dollars(t.CostMicros), calls(t.Requests))
		}
	})
}

type eventsCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" optional:"" help:"An app's id. Default: all apps of the organisation."`
}

func eventText(e budget.Event) string {
	if e.Kind == budget.EventFlip {
		return fmt.Sprintf("%s moved from %s to %s", e.App, e.From, e.Label)
	}
	label := e.Label
	if e.App != "" {
		label = e.App + ": " + label
	}
	return fmt.Sprintf("%s at %d %%: %s of %s", label, e.Percent, dollars(e.SpendMicros), dollars(e.QuotaMicros))
}

func (c eventsCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showOf(ctx, b, out, c.Org, c.App, func(k *budget.Keeper) ([]budget.Event, error) { return c.find(ctx, k) }, func(found []budget.Event) {
		if len(found) == 0 {
			fmt.Fprintln(out, "No events.")
		}
		for _, e := range found {
			fmt.Fprintf(out, "%s  %s  %s\n", out.Dim(e.At.Format(time.RFC3339)), dateOf(e.Day), eventText(e))
		}
	})
}

// find are the events of an app, or of all apps in the order of their times: each says whose
// it is then, unless the organisation's quotas are one for all apps.
func (c eventsCmd) find(ctx context.Context, k *budget.Keeper) ([]budget.Event, error) {
	if c.App != "" {
		return collect(k.Events(ctx, c.Org, c.App))
	}
	org, err := k.Setup().GetOrg(ctx, c.Org)
	if err != nil {
		return nil, err
	}
	all := []budget.Event{}
	for app, err := range k.Setup().Apps(ctx, c.Org) {
		if err != nil {
			return nil, err
		}
		for e, err := range k.Events(ctx, c.Org, app.ID) {
			if err != nil {
				return nil, err
			}
			if org.Scope != budget.ScopeOrg {
				e.App = app.ID
			}
			all = append(all, e)
		}
		if org.Scope == budget.ScopeOrg { // one has those of all
			break
		}
	}
	slices.SortStableFunc(all, func(a, b budget.Event) int { return a.At.Compare(b.At) })
	return all, nil
}

// known says that an organisation, and an app of it that is named, exist.
func known(ctx context.Context, k *budget.Keeper, org, app string) error {
	_, err := k.Setup().GetOrg(ctx, org)
	if err == nil && app != "" {
		_, err = k.Setup().GetApp(ctx, org, app)
	}
	return err
}
