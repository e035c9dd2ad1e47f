package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// usageRepairCmd books what was used without a record of the stream.
type usageRepairCmd struct {
	period
	First bool `help:"Also book what counters had before their first record, for a stream that was turned on late. Wrong where hours before that have expired."`
	destroys
}

// Help is shown by --help.
func (usageRepairCmd) Help() string {
	return `Counters of buckets say what was used while the stream was off, or not read within a day:
that is booked into the hour in which it was seen, and marked as repaired. Hours of the
last day are left alone, because their records may still come. What a bucket counted
whose end nobody saw cannot be known: it is told, and not booked. Each is booked once,
however often this runs.

Examples:
  dynalimit usage repair --dry-run
  dynalimit usage repair --since 7d
  dynalimit usage repair --from 2026-01 --to 2026-01 --yes --json`
}

// usualRepair is how far back is repaired where nothing is said.
const usualRepair = 31 * 24 * time.Hour

// repairedJSON is what was repaired, for programs.
type repairedJSON struct {
	From     time.Time     `json:"from"`
	To       time.Time     `json:"to"`
	DryRun   bool          `json:"dry_run"`
	Bookings []bookingJSON `json:"bookings"`
	Unseen   []unseenJSON  `json:"unseen"`
	Hours    int           `json:"hours_made_anew"`
	Sums     int           `json:"sums_written"`
}

// limitHour is an hour of a limit of somebody, for programs.
type limitHour struct {
	Entity   string    `json:"entity_id"`
	Resource string    `json:"resource"`
	Limit    string    `json:"limit"`
	Hour     time.Time `json:"hour"`
}

func (a limitHour) compare(b limitHour) int {
	return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Limit, b.Limit))
}

type bookingJSON struct {
	limitHour
	Booked int64 `json:"booked_millitokens"`
}

type unseenJSON struct {
	limitHour
	Ends int64 `json:"unseen_ends"`
}

// Run repairs.
func (c usageRepairCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	a, err := c.period.read(now(ctx), usualRepair)
	if err != nil {
		return badInput("%w", err)
	}
	return g.changing(ctx, out, func(repo *dynalimit.Repository) error {
		if err := g.registered(ctx, repo); err != nil {
			return err
		}
		closer, who, err := closerOf(ctx, g)
		if err != nil {
			return err
		}
		how := aggregator.RepairOptions{From: a.From, To: a.To, First: c.First, DryRun: c.DryRun, Principal: who}
		if !c.DryRun && !c.Yes {
			if err := c.ask(ctx, out, closer, how); err != nil {
				return err
			}
		}
		done, err := closer.Repair(ctx, how)
		if err != nil {
			return err
		}
		return c.show(out, a, done)
	})
}

// closerOf is what repairs, and in whose name.
func closerOf(ctx context.Context, g *globals) (*aggregator.Closer, string, error) {
	o := g.options(ctx)
	cfg, err := o.Config(ctx)
	if err != nil {
		return nil, "", err
	}
	who, err := o.Identity(ctx, cfg)
	if err != nil {
		return nil, "", err
	}
	closer, err := aggregator.NewCloser(o.ClientOf(cfg), g.Table, &aggregator.CloserOptions{Namespaces: []string{g.Namespace}, Now: clockOf(ctx)})
	return closer, who, err
}

// ask asks, unless there is nothing to book: then no more is done than what a repair that
// was cut left undone.
func (c usageRepairCmd) ask(ctx context.Context, out *term.Output, closer *aggregator.Closer, how aggregator.RepairOptions) error {
	how.DryRun = true
	would, err := closer.Repair(ctx, how)
	if err != nil || len(would.Bookings) == 0 {
		return err
	}
	question := fmt.Sprintf("%s would be made: 'dynalimit usage repair --dry-run' shows them. They cannot be taken back.", notation.Many(len(would.Bookings), "booking"))
	return c.confirm(ctx, out, question, "repair")
}

func (c usageRepairCmd) show(out *term.Output, a asked, done aggregator.Repaired) error {
	j := repairedJSON{
		From: a.From.In(a.zone), To: a.To.In(a.zone), DryRun: c.DryRun, Bookings: []bookingJSON{}, Unseen: []unseenJSON{},
		Hours: done.Closed.Hours, Sums: done.Closed.Sums,
	}
	for _, b := range done.Bookings {
		j.Bookings = append(j.Bookings, bookingJSON{limitHour{b.Entity, b.Resource, b.Limit, b.Hour.In(a.zone)}, b.Millitokens})
	}
	for _, u := range done.Unseen {
		j.Unseen = append(j.Unseen, unseenJSON{limitHour{u.Entity, u.Resource, u.Limit, u.Hour.In(a.zone)}, u.Unseen})
	}
	slices.SortFunc(j.Bookings, func(a, b bookingJSON) int { return a.compare(b.limitHour) })
	slices.SortFunc(j.Unseen, func(a, b unseenJSON) int { return a.compare(b.limitHour) })
	return out.Show(j, func() { c.print(out, a, j) })
}

// print shows it to a person.
func (c usageRepairCmd) print(out *term.Output, a asked, j repairedJSON) {
	if len(j.Bookings) == 0 {
		fmt.Fprintf(out, "Nothing to book of the hours that are final: %s.\n", a.Text(a.zone))
	} else {
		rows := newColumns("HOUR", "ENTITY", "RESOURCE", "LIMIT", "BOOKED")
		for _, b := range j.Bookings {
			rows.add(b.Hour.Format("2006-01-02 15:04"), b.Entity, b.Resource, b.Limit, notation.Tokens(b.Booked))
		}
		rows.print(out, 4)
	}
	for _, u := range j.Unseen {
		fmt.Fprintln(out, out.Yellow(fmt.Sprintf("Cannot be known: %s of %s on %s, %d %s unseen in the hour of %s.",
			term.Plain(u.Limit), term.Plain(u.Entity), term.Plain(u.Resource), u.Ends, notation.Words(u.Ends, "end of a bucket", "ends of buckets"),
			u.Hour.Format("2006-01-02 15:04"))))
	}
	switch {
	case len(j.Bookings) == 0:
	case c.DryRun:
		fmt.Fprintln(out, "Dry run: nothing was changed.")
	default:
		fmt.Fprintf(out, "Booked, and %s written of %s.\n", notation.Many(j.Sums, "sum"), notation.Many(j.Hours, "hour"))
	}
}
