package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/report"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// usageReportCmd writes usage as a page for people.
type usageReportCmd struct {
	Resource string `help:"Only of this resource. Default: of all." placeholder:"NAME"`
	Entity   string `help:"Usage of this entity, with its children. Default: usage of all." placeholder:"ID"`
	By       string `help:"The length of a sum: hour, day, month, or one that suits the period." enum:"auto,hour,day,month" default:"auto"`
	Top      int    `help:"How many entities are told apart, 1 to 10; the others are shown together." default:"10"`
	period
	Output string `short:"o" help:"Write this file, in place of the one there is; - is the standard output." placeholder:"FILE"`
}

// Validate refuses a --top out of range and an invalid --entity.
func (c usageReportCmd) Validate() error {
	if c.Top < 1 || c.Top > report.MaxEntities {
		return fmt.Errorf("--top is %d: give 1 to %d", c.Top, report.MaxEntities)
	}
	return whose{Entity: c.Entity}.Validate()
}

// Run writes an HTML page with charts of a period's usage to the file of --output. With --json it
// prints the figures.
func (c usageReportCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	at := now(ctx)
	a, by, err := c.reportPeriod(at)
	switch {
	case err != nil:
		return badInput("%w", err)
	case c.Output == "" && !out.JSON:
		return badInput("no file is named: give one with -o, such as -o report.html")
	}
	return g.readingUsage(ctx, out, a.zone, func(repo *dynalimit.Repository, r *aggregator.Reader) error {
		s := survey{repo: repo, reader: r, entity: c.Entity, top: c.Top, query: aggregator.Query{Resource: c.Resource, From: a.From, To: a.To, Window: by}}
		s.setStarts(a.windowStarts(by, at))
		s.tell = c.progressPrinter(ctx, out)
		page := report.Report{
			Table: g.Table, Namespace: g.Namespace, Entity: c.Entity, Window: string(by), Zone: a.zone.String(),
			From: a.From.In(a.zone), To: a.To.In(a.zone), Made: at.In(a.zone), Starts: s.starts,
		}
		if page.Resources, err = s.readResources(ctx); err != nil {
			return err
		}
		page.Notes = append([]string{}, report.NotesOf(page)...)
		a.namespace = g.Namespace
		return c.writePage(out, a, page)
	})
}

// reportPeriod returns the period of the flags, extended to whole windows, and the window of the charts. It
// refuses more than report.MaxWindows, and the time zone Local.
func (c usageReportCmd) reportPeriod(at time.Time) (asked, aggregator.Window, error) {
	by := aggregator.Window(c.By)
	a, err := c.parsePeriod(at, window{By: by}.defaultPeriod())
	if err != nil {
		return a, "", err
	}
	if a.zone == time.Local && a.zone.String() == "Local" {
		return a, "", fmt.Errorf("--timezone Local is not known where the page is read: give the name of the IANA, such as Europe/Berlin")
	}
	if c.By == "auto" {
		by = chartWindow(a.To.Sub(a.From))
	}
	a = a.wholeWindows(by, at)
	if n := len(a.windowStarts(by, at)); n > report.MaxWindows {
		return a, by, fmt.Errorf("the page would have %s, and no more than %d can be read: give a longer --by than %s, or a shorter time",
			notation.Many(n, "window"), report.MaxWindows, by)
	}
	return a, by, nil
}

// chartWindow returns the window for a readable chart of a period: hours up to 8 days, days up to
// 400, else months.
func chartWindow(length time.Duration) aggregator.Window {
	const day = 24 * time.Hour
	switch {
	case length <= 8*day:
		return aggregator.Hour
	case length <= 400*day:
		return aggregator.Day
	}
	return aggregator.Month
}

// progressPrinter returns a function that notes the progress of a report, at most every two
// seconds. It is safe for concurrent use.
func (c usageReportCmd) progressPrinter(ctx context.Context, out *term.Output) func(resource string, done, of int) {
	var mu sync.Mutex
	told := now(ctx)
	return func(resource string, done, of int) {
		mu.Lock()
		defer mu.Unlock()
		if at := now(ctx); at.Sub(told) >= noteInterval {
			told = at
			out.Notef("dynalimit: %d of %s read, of %s", done, notation.Many(of, "entity"), term.Plain(resource))
		}
	}
}

// writePage writes the page to the file of --output or to standard output, and prints a summary or,
// with --json, the figures.
func (c usageReportCmd) writePage(out *term.Output, a asked, page report.Report) error {
	if c.Output == "-" && !out.JSON {
		return report.Write(out, page)
	}
	if c.Output != "" && c.Output != "-" {
		if err := writeFileAtomically(c.Output, 0o644, func(to io.Writer) error { return report.Write(to, page) }); err != nil {
			return adviseOtherFile(err)
		}
	}
	return out.Show(page, func() {
		fmt.Fprintf(out, "Wrote %s: %s, %s.\n", term.Plain(c.Output),
			notation.Many(len(page.Resources), "resource"), notation.Many(len(page.Starts), page.Window))
		if len(page.Resources) == 0 {
			printNothingUsed(out, a)
		}
	})
}
