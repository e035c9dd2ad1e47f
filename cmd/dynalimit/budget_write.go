package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

type overrideCmd struct {
	Org   string        `arg:"" help:"The organisation's id."`
	App   string        `arg:"" help:"The app's id."`
	Label string        `arg:"" optional:"" help:"The label to force, of the app's ordering."`
	For   time.Duration `help:"How long, such as 90m or 24h." default:"1h"`
	Clear bool          `help:"End an override instead."`
}

// Validate refuses a label beside --clear, a missing label, and a --for of 0 or less.
func (c overrideCmd) Validate() error {
	switch {
	case c.Clear && c.Label != "":
		return errors.New("--clear takes no label: leave it out")
	case !c.Clear && c.Label == "":
		return errors.New("which label? Name one, or end an override with --clear")
	case c.For <= 0:
		return fmt.Errorf("--for %v is not a time to come: write it like 90m or 24h", c.For)
	}
	return nil
}

type overrideJSON struct {
	Org   string    `json:"org_id"`
	App   string    `json:"app_id"`
	Label string    `json:"model_label,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

// Run forces an app's label for the period --for, even beyond its budget, or ends that with --clear, and prints
// the result. Other processes follow after their cache's time. It fails if the app does not exist.
func (c overrideCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showExisting(ctx, b, out, c.Org, c.App, func(k *budget.Keeper) (overrideJSON, error) {
		j := overrideJSON{Org: c.Org, App: c.App, Label: c.Label}
		if c.Clear {
			return j, k.Setup().ClearOverride(ctx, c.Org, c.App)
		}
		j.Until = now(ctx).Add(c.For).Truncate(time.Second).UTC()
		return j, k.Setup().Override(ctx, c.Org, c.App, c.Label, j.Until)
	}, func(j overrideJSON) {
		if c.Clear {
			fmt.Fprintf(out, "%s chooses by its budget again.\n", c.App)
			return
		}
		fmt.Fprintf(out, "%s uses %s until %s; other processes follow within their cache's time.\n", c.App, out.Bold(c.Label), momentText(j.Until))
	})
}

type adjustCmd struct {
	Org    string  `arg:"" help:"The organisation's id."`
	App    string  `arg:"" help:"The app's id."`
	Label  string  `arg:"" help:"The label."`
	Charge dollars `help:"Dollars to add to the spend." xor:"amount" required:"" placeholder:"USD"`
	Credit dollars `help:"Dollars to take off it." xor:"amount" required:"" placeholder:"USD"`
	Reason string  `help:"Why; it is kept." required:""`
	Day    dayFlag `help:"The day, like 2026-01-31. Default: today." placeholder:"DAY"`
	ID     string  `name:"id" help:"A UUID under which it is applied once, to repeat it safely. Default: a new one, which a failure names." placeholder:"UUID"`
}

type adjustJSON struct {
	Org string `json:"org_id"`
	budget.Adjustment
	Totals budget.DayTotals `json:"totals"`
}

// Run charges or credits a label of an app on a day, once for each --id, and prints the label's totals of the
// day. If the outcome is unknown, the error names the --id to repeat it with. An --id of another adjustment is
// an error.
func (c adjustCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.onKeeper(ctx, out, func(k *budget.Keeper) error {
		delta := int64(c.Charge - c.Credit)
		applied, err := k.Setup().Adjust(ctx, c.Org, c.App, budget.Adjustment{
			ID: c.ID, Label: c.Label, Day: string(c.Day), DeltaMicros: delta, Reason: c.Reason,
		})
		if errors.Is(err, fault.ErrUnavailable) {
			err = fmt.Errorf("%w; repeat it with --id %s --day %s, and it is applied once", err, applied.ID, dateOf(applied.Day))
		}
		if errors.Is(err, budget.ErrConflict) { // the adjustment is applied already, or the id belongs to another
			return errors.New(err.Error() + "; give another adjustment another --id")
		}
		if err != nil {
			return err
		}
		totals, err := k.Totals(ctx, c.Org, c.App, applied.Day)
		if err != nil {
			return fmt.Errorf("the adjustment is written, but the day cannot be read: %w", err)
		}
		j := adjustJSON{c.Org, applied, totals}
		return out.Show(j, func() { j.printText(out, dayName(totals.Day)) })
	})
}

// printText prints an adjustment in dollars and the day's totals of its label, for people. day is the day's
// printed name. It says if the adjustment had been applied before.
func (j adjustJSON) printText(out *term.Output, day string) {
	word := "Charged"
	if j.DeltaMicros < 0 {
		word = "Credited"
	}
	if j.Duplicate {
		word = "Before already: " + strings.ToLower(word)
	}
	fmt.Fprintf(out, "%s %s to %s on %s.\n", word, dollars(max(j.DeltaMicros, -j.DeltaMicros)), j.Label, day)
	printLabels(out, slices.DeleteFunc(slices.Clone(j.Totals.Labels), func(l budget.LabelTotals) bool { return l.Label != j.Label }), callsSuffix)
}

type sweepCmd struct {
	Org []string `arg:"" optional:"" help:"Organisations' ids. Default: all."`
}

// Run closes past days, which stores their totals, and delivers pending events, of the named organisations or
// of all. It prints the number of organisations and of stored totals.
func (c sweepCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) (budget.SweepReport, error) { return k.Sweep(ctx, c.Org...) }, func(report budget.SweepReport) {
		fmt.Fprintf(out, "Organisations: %d. Totals of days closed: %d.\n", report.Orgs, report.Closed)
	})
}
