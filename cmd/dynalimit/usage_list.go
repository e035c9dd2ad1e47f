package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/ledger"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// usageListCmd shows usage by window.
type usageListCmd struct {
	whose
	byModel
	window
	period
}

// Validate refuses an invalid --entity or --children-of.
func (c usageListCmd) Validate() error { return c.whose.Validate() }

// Run prints the usage of a period by window, with a chart and a sum for each resource and limit. It extends
// the period to whole windows.
func (c usageListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	a, err := c.period.parsePeriod(now(ctx), c.defaultPeriod())
	if err != nil {
		return badInput("%w", err)
	}
	a = a.wholeWindows(c.By, now(ctx))
	a.namespace = g.Namespace
	return g.withUsageReader(ctx, out, a.zone, func(_ *dynalimit.Repository, r *aggregator.Reader) error {
		all := c.findUsage(ctx, r, aggregator.Query{From: a.From, To: a.To, Window: c.By})
		if out.JSON {
			return term.Stream(out, all, term.List[aggregator.Usage]{})
		}
		return c.printUsage(out, a, a.windowStarts(c.By, now(ctx)), all)
	})
}

// byModel is the flag of commands that show money by model.
type byModel struct {
	ByModel bool `help:"Show money on a group of resources by model too, as far as buckets counted it so."`
}

// printUsage prints usage for people, one resource at a time, then notes about incomplete totals. all must be
// ordered by resource; starts are the windows of the charts. After an error of all it prints the usage before
// it, and returns the error.
func (c usageListCmd) printUsage(out *term.Output, a asked, starts []time.Time, all usages) error {
	var held []aggregator.Usage
	var told []ledger.Total
	none := true
	flush := func() {
		if len(held) > 0 {
			if !none {
				fmt.Fprintln(out)
			}
			told = append(told, c.printResource(out, a, starts, held)...)
			none, held = false, nil
		}
	}
	for u, err := range all {
		if err != nil {
			flush()
			printAmountNotes(out, told)
			return err
		}
		if len(held) > 0 && held[0].Resource != u.Resource {
			flush()
		}
		held = append(held, u)
		if out.Err() != nil {
			return out.Err()
		}
	}
	flush()
	printAmountNotes(out, told)
	if none {
		printNothingUsed(out, a)
	}
	return out.Err()
}

// printResource prints a chart and a table of windows, the usage of one resource, and returns the totals by
// limit in millitokens. windows must not be empty; starts are the windows of the chart.
func (c usageListCmd) printResource(out *term.Output, a asked, starts []time.Time, windows []aggregator.Usage) []ledger.Total {
	var sums ledger.Book
	sums.SetWindows(starts)
	for _, u := range windows {
		sums.Add(u)
	}
	fmt.Fprintf(out, "%s %s, by %s%s\n", out.Bold(term.Plain(windows[0].Resource)), term.Plain(c.describe()), c.By, a.zoneText())
	totals := sums.Totals()
	printSparks(out, totals)
	fmt.Fprintln(out)
	rows := newColumns("START", "LIMIT", "MODEL", "CONSUMED", "PENDING", "UNRECORDED", "STATE")
	for _, u := range windows {
		start := ledger.WindowText(c.By, u.Start)
		for _, l := range u.Limits {
			rows.addRow(start, l.Limit, "", notation.UsedInUnit(l.Unit, l.Consumed), amountCell(l.Unit, l.Pending), unrecordedCell(l), ledger.State(u))
			start = ""
			if c.ByModel {
				for _, m := range ledger.ModelsOf(l) {
					rows.addRow("", "", m.Model, notation.UsedInUnit(l.Unit, m.Consumed), "", "", "")
				}
			}
		}
	}
	rows.printTable(out, 3, 4, 5)
	return totals
}

// printSparks prints a line for each total: its limit, its course over the windows as a small chart, and its
// sum in the limit's unit. The chart fits the terminal.
func printSparks(out *term.Output, totals []ledger.Total) {
	name, amount := 0, 0
	for _, t := range totals {
		name, amount = max(name, ansi.StringWidth(t.Limit)), max(amount, len(notation.UsedInUnit(t.Unit, t.Consumed)))
	}
	room := 60
	if out.Width > 0 {
		room = max(8, min(room, out.Width-name-amount-6))
	}
	for _, t := range totals {
		pad := strings.Repeat(" ", name-ansi.StringWidth(t.Limit))
		fmt.Fprintf(out, "  %s%s  %s  %*s\n", term.Plain(t.Limit), pad, out.Cyan(term.Spark(t.Series, room)), amount, notation.UsedInUnit(t.Unit, t.Consumed))
	}
}

// amountCell formats an amount in millitokens in the limit's unit, or returns "" for 0.
func amountCell(unit string, milli int64) string {
	if milli == 0 {
		return ""
	}
	return notation.UsedInUnit(unit, milli)
}

// unrecordedCell formats the unrecorded amount of a limit, or returns "" for 0. If buckets ended unseen, it
// adds "and more", or returns "unknown" without an amount.
func unrecordedCell(l aggregator.LimitUsage) string {
	switch {
	case l.Unseen > 0 && l.Unrecorded != 0:
		return notation.UsedInUnit(l.Unit, l.Unrecorded) + " and more"
	case l.Unseen > 0:
		return "unknown"
	}
	return amountCell(l.Unit, l.Unrecorded)
}

// printAmountNotes prints an explanation for each kind of unknown, pending and unrecorded amounts that the
// totals have. It prints nothing without them.
func printAmountNotes(out *term.Output, totals []ledger.Total) {
	var unseen, pending, unrecorded bool
	for _, t := range totals {
		unseen, pending, unrecorded = unseen || t.Unseen > 0, pending || t.Pending != 0, unrecorded || t.Unrecorded != 0
	}
	if unseen {
		fmt.Fprintln(out, out.Yellow("Unknown: buckets went unseen while the stream was not read: what they counted to the last is lost."))
	}
	if pending {
		fmt.Fprintln(out, out.Dim("Pending: counted, read from the buckets; the stream has not brought it yet."))
	}
	if unrecorded {
		fmt.Fprintln(out, out.Dim("Unrecorded: counted, and used before, while the stream was not read: counters showed it with the next record."))
	}
}

// columns is a table. It omits columns without values.
type columns struct {
	titles []string
	rows   [][]string
}

// newColumns returns an empty table with titles.
func newColumns(titles ...string) *columns { return &columns{titles: titles} }

// addRow adds a row with one cell for each title. It keeps the slice cells, which printTable may change.
func (c *columns) addRow(cells ...string) { c.rows = append(c.rows, cells) }

// printTable prints the rows without entirely empty columns. right has the indexes of right-aligned columns;
// their cells and titles it pads in place, so print only once.
func (c *columns) printTable(out *term.Output, right ...int) {
	width := make([]int, len(c.titles))
	for _, row := range c.rows {
		for i, cell := range row {
			width[i] = max(width[i], ansi.StringWidth(cell))
		}
	}
	for _, i := range right {
		width[i] = max(width[i], min(width[i], 1)*len(c.titles[i])) // an empty column stays empty
		c.titles[i] = fmt.Sprintf("%*s", width[i], c.titles[i])
		for _, row := range c.rows {
			row[i] = strings.Repeat(" ", width[i]-ansi.StringWidth(row[i])) + row[i]
		}
	}
	kept := func(cells []string) []string {
		var some []string
		for i, cell := range cells {
			if width[i] > 0 {
				some = append(some, cell)
			}
		}
		return some
	}
	rows := make([][]string, len(c.rows))
	for i, row := range c.rows {
		rows[i] = kept(row)
	}
	out.WholeTable(kept(c.titles), rows)
}
