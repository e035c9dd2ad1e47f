package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// collectAll reads a sequence to its end and returns its elements, or nil and the first error. Without an error
// the slice is never nil.
func collectAll[T any](all iter.Seq2[T, error]) ([]T, error) {
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

// Run prints the label, model and reason that a service would now get for an app, each label's spend, and the
// reset time. Without --create-tables it writes nothing, unlike a service, which records the label.
func (c recommendCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	b.readOnly = !b.CreateTables
	return showExisting(ctx, b, out, c.Org, c.App, func(k *budget.Keeper) (recommendJSON, error) {
		r, err := k.RecommendFresh(ctx, c.Org, c.App)
		return recommendJSON{c.Org, c.App, r.Label, r.Model, r.Mode, r.Reason, r.Price, r.ResetAt.UTC(), r.Labels}, err
	}, func(j recommendJSON) {
		fmt.Fprintf(out, "%s  %s, %s\n", out.Bold(j.Label), term.Plain(j.Model), j.Reason)
		labels := make([]budget.LabelTotals, len(j.labels))
		for i, l := range j.labels {
			labels[i] = budget.LabelTotals{Label: l.Label, CostMicros: l.SpendMicros, Quota: l.QuotaMicros, Percent: l.Percent, Status: l.Status}
		}
		printLabels(out, labels, func(budget.LabelTotals) string { return "" })
		fmt.Fprintf(out, "  %s %s\n", out.Dim("resets      "), j.ResetAt.Format(time.RFC3339))
	})
}

// checkExists reads the organisation and, unless app is "", its app, and returns an error if one does not exist
// or cannot be read.
func checkExists(ctx context.Context, k *budget.Keeper, org, app string) error {
	_, err := k.Setup().GetOrg(ctx, org)
	if err == nil && app != "" {
		_, err = k.Setup().GetApp(ctx, org, app)
	}
	return err
}
