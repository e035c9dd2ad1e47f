package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// usageCmd is about what was used.
type usageCmd struct {
	List   usageListCmd   `cmd:"" set:"usual=7d; 24h by hour, 366d by month" help:"Show what was used, hour by hour, by day or by month."`
	Top    usageTopCmd    `cmd:"" set:"usual=24h" help:"Show who used most of a resource."`
	Export usageExportCmd `cmd:"" set:"usual=7d; 24h by hour, 366d by month" help:"Write usage as CSV, or as lines of JSON."`
	Report usageReportCmd `cmd:"" set:"usual=7d" help:"Write a page of HTML with charts of what was used."`
}

// period are the flags of a time.
type period struct {
	Since    string `help:"The time up to now, such as 24h or 7d. Default: ${usual}." placeholder:"PERIOD"`
	From     string `help:"Not before: a time, a day such as 2026-01-31, a month such as 2026-01, or a period such as 7d." placeholder:"TIME"`
	To       string `help:"Not after: likewise; a day or a month is in it. Default: now." placeholder:"TIME"`
	Timezone string `help:"The time zone in which days begin and times are shown, such as Europe/Berlin." default:"UTC"`
}

// asked is a period that was read.
type asked struct {
	notation.Span
	zone *time.Location
	// namespace is the one that is read; "" for none.
	namespace string
}

// read reads the flags, as of now; usual is how long the period is if nothing else is said.
func (p period) read(now time.Time, usual time.Duration) (asked, error) {
	zone, err := time.LoadLocation(cmp.Or(p.Timezone, "UTC"))
	if err != nil {
		return asked{}, fmt.Errorf("--timezone %q is not known: give the name of the IANA, such as Europe/Berlin", p.Timezone)
	}
	span, err := notation.SpanOf(p.Since, p.From, p.To, now, usual, zone)
	return asked{Span: span, zone: zone}, err
}

// zoneText names the time zone where it is not UTC.
func (a asked) zoneText() string {
	if a.zone == time.UTC || a.zone.String() == "UTC" {
		return ""
	}
	return " in " + term.Plain(a.zone.String())
}

// widened is the period with the whole of the windows that it cuts.
func (a asked) widened(w aggregator.Window, now time.Time) asked {
	calendar, kind := usage.Calendar{Zone: a.zone}, storedWindows[w]
	a.Span = a.Span.Widened(now, func(at time.Time) time.Time { return calendar.Floor(kind, at) }, func(at time.Time) time.Time { return calendar.Next(kind, at) })
	return a
}

// starts are where the windows of the period begin, up to now.
func (a asked) starts(w aggregator.Window, now time.Time) (all []time.Time) {
	calendar, kind := usage.Calendar{Zone: a.zone}, storedWindows[w]
	for at := calendar.Floor(kind, a.From); at.Before(a.To) && !at.After(now); at = calendar.Next(kind, at) {
		all = append(all, at)
	}
	return all
}

// storedWindows are the windows as the table has them.
var storedWindows = map[aggregator.Window]schema.UsageWindow{
	aggregator.Hour: schema.UsageHourly, aggregator.Day: schema.UsageDaily, aggregator.Month: schema.UsageMonthly,
}

// widest are the longest windows that the period is whole ones of: the fewer are read.
func (a asked) widest() aggregator.Window {
	switch {
	case a.Months(a.zone):
		return aggregator.Month
	case a.Days(a.zone):
		return aggregator.Day
	}
	return aggregator.Hour
}

// window are the flag of what usage is summed over.
type window struct {
	By aggregator.Window `help:"What is summed: hour, day or month." enum:"hour,day,month" default:"day"`
}

// usual is how long a period is by default, where nothing says how long: enough windows for a
// picture.
func (w window) usual() time.Duration {
	switch w.By {
	case aggregator.Hour:
		return 24 * time.Hour
	case aggregator.Month:
		return 366 * 24 * time.Hour
	case aggregator.Day:
	}
	return 7 * 24 * time.Hour
}

// whose are the flags of whose usage is shown.
type whose struct {
	Entity     string `help:"What this entity used itself." placeholder:"ID" xor:"whose"`
	ChildrenOf string `help:"What the children of this entity used." placeholder:"ID" xor:"whose"`
	Plan       string `help:"What the entities on this plan used." placeholder:"NAME" xor:"whose"`
	Resource   string `help:"Only of this resource. Default: of all." placeholder:"NAME"`
}

func (w whose) Validate() error {
	for flag, id := range map[string]string{"--entity": w.Entity, "--children-of": w.ChildrenOf} {
		if id == "" {
			continue
		}
		if err := (dynalimit.Entity{ID: id}).Validate(); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}

// title says whose usage it is.
func (w whose) title() string {
	switch {
	case w.Entity != "":
		return "of " + w.Entity
	case w.ChildrenOf != "":
		return "of the children of " + w.ChildrenOf
	case w.Plan != "":
		return "of the plan " + w.Plan
	}
	return "in total"
}

// usages is usage as it is found.
type usages = iter.Seq2[aggregator.Usage, error]

// find is the usage that the flags ask for, of one resource after the other.
func (w whose) find(ctx context.Context, r *aggregator.Reader, q aggregator.Query) usages {
	q.Resource = w.Resource
	switch {
	case w.Entity != "":
		return r.Entity(ctx, w.Entity, q)
	case w.ChildrenOf != "":
		return r.Children(ctx, w.ChildrenOf, q)
	case w.Plan != "":
		return r.Plan(ctx, w.Plan, q)
	case w.Resource != "":
		return r.Resource(ctx, w.Resource, q)
	}
	return perResource(ctx, r, q)
}

// perResource is what was used of each resource.
func perResource(ctx context.Context, r *aggregator.Reader, q aggregator.Query) usages {
	return func(yield func(aggregator.Usage, error) bool) {
		used, err := r.Used(ctx, q)
		if err != nil {
			yield(aggregator.Usage{}, err)
			return
		}
		before := ""
		for _, one := range used {
			if one.Resource == before {
				continue
			}
			before = one.Resource
			for u, err := range r.Resource(ctx, one.Resource, q) {
				if !yield(u, err) || err != nil {
					return
				}
			}
		}
	}
}

// readingUsage runs a command that reads usage, told in a time zone.
func (g *globals) readingUsage(ctx context.Context, out *term.Output, zone *time.Location, run func(*dynalimit.Repository, *aggregator.Reader) error) error {
	return g.reading(ctx, out, func(repo *dynalimit.Repository) error {
		client, err := g.options(ctx).Client(ctx)
		if err != nil {
			return err
		}
		reader, err := aggregator.NewReader(client, g.Table, &aggregator.ReaderOptions{Namespace: g.Namespace, Location: zone, Began: g.began(ctx), Now: clockOf(ctx)})
		if err != nil {
			return err
		}
		return run(repo, reader)
	})
}

// nothingUsed says that there is no usage, and why that may be.
func nothingUsed(out *term.Output, a asked) {
	fmt.Fprintf(out, "Nothing was used, as far as is known: %s.\n", a.Text(a.zone))
	fmt.Fprintln(out, out.Dim("Usage comes from the table's stream: 'dynalimit tail' or the Lambda has to run. 'dynalimit doctor' says whether one does."))
	if a.namespace == "" {
		fmt.Fprintln(out, out.Dim("Each namespace has usage of its own: 'dynalimit namespace list' names them, --namespace shows that of one."))
	}
}
