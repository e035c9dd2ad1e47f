package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// usageKeepCmd shows and changes the retention of usage.
type usageKeepCmd struct {
	Hours  string `help:"How long hours are kept; 0 for ever." placeholder:"PERIOD"`
	Days   string `help:"How long days are kept, at least 40d; 0 for ever." placeholder:"PERIOD"`
	Months string `help:"How long months are kept; 0 for ever." placeholder:"PERIOD"`
	changes
}

// usageKept is the retention of usage as JSON.
type usageKept struct {
	Hours   int64 `json:"hours_seconds"`
	Days    int64 `json:"days_seconds"`
	Months  int64 `json:"months_seconds"`
	Version int64 `json:"version"`
	Changed bool  `json:"changed"`
	DryRun  bool  `json:"dry_run"`
}

// Validate refuses malformed periods.
func (c usageKeepCmd) Validate() error {
	_, err := c.applyTo(admin.UsageRetention{})
	return err
}

// applyTo returns the retention r with the given flags applied; parts without a flag stay. The flag 0 means for
// ever, stored as -1. A malformed period is an error.
func (c usageKeepCmd) applyTo(r admin.UsageRetention) (admin.UsageRetention, error) {
	for _, f := range []struct {
		flag, text string
		to         *time.Duration
	}{{"--hours", c.Hours, &r.Hours}, {"--days", c.Days, &r.Days}, {"--months", c.Months, &r.Months}} {
		switch period, err := notation.ParsePeriod(f.text); {
		case f.text == "":
		case f.text == "0":
			*f.to = -1
		case err != nil:
			return r, fmt.Errorf("%s %w", f.flag, err)
		default:
			*f.to = period
		}
	}
	return r, nil
}

// Run prints how long usage is kept or, if a flag is given, changes that and prints the differences. A change
// stores defaults for parts without a value: 90 days of hours, 400 days of days, months for ever. A dry run
// stores nothing.
func (c usageKeepCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	if c.Hours+c.Days+c.Months == "" {
		return g.withoutNamespace().readTable(ctx, out, func(repo *dynalimit.Repository) error {
			stored, err := admin.New(repo).Usage.Retention(ctx)
			if err != nil {
				return err
			}
			return c.showKept(out, stored, stored)
		})
	}
	return g.withoutNamespace().changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		usage := admin.New(repo).Usage
		stored, err := usage.Retention(ctx)
		if err != nil {
			return err
		}
		base := admin.UsageRetention{
			Hours: cmp.Or(stored.Hours, 90*24*time.Hour), Days: cmp.Or(stored.Days, 400*24*time.Hour), Months: cmp.Or(stored.Months, -1), Version: stored.Version,
		}
		next, err := c.applyTo(base)
		if err == nil && !c.DryRun {
			next, err = usage.SetRetention(ctx, next)
		}
		if err != nil {
			return err
		}
		return c.showKept(out, stored, next)
	})
}

// showKept prints the retention is or, if it differs from was, the one before, the differences. In a dry run it
// says that nothing was changed. In JSON periods are seconds, and 0 means for ever.
func (c usageKeepCmd) showKept(out *term.Output, was, is admin.UsageRetention) error {
	seconds := func(kept time.Duration) int64 { return int64(max(0, kept) / time.Second) }
	changed := was.Hours != is.Hours || was.Days != is.Days || was.Months != is.Months
	j := usageKept{seconds(is.Hours), seconds(is.Days), seconds(is.Months), is.Version, changed, c.DryRun}
	return out.Show(j, func() {
		switch {
		case changed:
			printDone(out, "usage", diffFacts(out, keptTexts(was), keptTexts(is)), c.DryRun, "What writes usage obeys it within a quarter of an hour. Hours of before stay as long as was said then.")
		case is.Version == 0:
			fmt.Fprintln(out, "Nothing is stored: the first process that writes usage stores how long it is kept.")
		default:
			printDone(out, "usage", diffFacts(out, nil, keptTexts(is)), false, "Change it with --hours, --days and --months.")
		}
	})
}

// keptTexts returns the parts of a retention that are not 0 as texts by name: hours, days and months.
func keptTexts(r admin.UsageRetention) map[string]string {
	texts := map[string]string{}
	for name, kept := range map[string]time.Duration{"hours": r.Hours, "days": r.Days, "months": r.Months} {
		if kept != 0 {
			texts[name] = keptText(kept)
		}
	}
	return texts
}

// keptText formats how long usage is kept, such as 90d. 0 and less mean "ever".
func keptText(kept time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case kept <= 0:
		return "ever"
	case kept%day == 0:
		return fmt.Sprintf("%dd", kept/day)
	default:
		return kept.String()
	}
}
