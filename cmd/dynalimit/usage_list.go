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
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// usageListCmd shows usage window by window.
type usageListCmd struct {
	whose
	window
	period
}

// Help is shown by --help.
func (usageListCmd) Help() string {
	return `A line shows the course of each limit: · is nothing used, - more given back than used.
Without --entity, --children-of and --plan it is the total: of a cascade each limit counts
once, at the highest entity that has it. An open window may still grow, a closed one is
summed once more a day after its end, and then it is final. Denials are what processes
told of, at all levels: best effort.

Examples:
  dynalimit usage list
  dynalimit usage list --entity key-1 --by hour --since 24h
  dynalimit usage list --resource gpt-4 --by month --from 2026-01 --timezone Europe/Berlin
  dynalimit usage list --children-of team-a --from 2026-01-01 --to 2026-01-31 --json`
}

// Run shows it.
func (c usageListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	a, err := c.period.read(now(ctx), c.usual())
	if err != nil {
		return badInput("%w", err)
	}
	a = a.widened(c.By, now(ctx))
	a.namespace = g.Namespace
	return g.readingUsage(ctx, out, a.zone, func(_ *dynalimit.Repository, r *aggregator.Reader) error {
		all := c.find(ctx, r, aggregator.Query{From: a.From, To: a.To, Window: c.By})
		if out.JSON {
			return term.Stream(out, all, term.List[aggregator.Usage]{JSON: func(u aggregator.Usage) any { return ledger.Of(u) }})
		}
		return c.print(out, a, a.starts(c.By, now(ctx)), all)
	})
}

// print shows usage to a person, a resource at a time.
func (c usageListCmd) print(out *term.Output, a asked, starts []time.Time, all usages) error {
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
			tellNotes(out, told)
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
	tellNotes(out, told)
	if none {
		nothingUsed(out, a)
	}
	return out.Err()
}

// printResource shows the windows of one resource, and returns what they sum up to.
func (c usageListCmd) printResource(out *term.Output, a asked, starts []time.Time, windows []aggregator.Usage) []ledger.Total {
	var sums ledger.Book
	sums.Begin(starts)
	for _, u := range windows {
		sums.Add(u)
	}
	fmt.Fprintf(out, "%s %s, by %s%s\n", out.Bold(term.Plain(windows[0].Resource)), term.Plain(c.title()), c.By, a.zoneText())
	totals := sums.Totals()
	sparks(out, totals)
	fmt.Fprintln(out)
	rows := newColumns("START", "LIMIT", "CONSUMED", "PENDING", "REPAIRED", "MISSING", "DENIED", "STATE")
	for _, u := range windows {
		start := ledger.WindowText(c.By, u.Start)
		for _, l := range u.Limits {
			rows.add(start, l.Limit, notation.Tokens(l.Consumed), amountCell(l.Pending), amountCell(l.Repaired), missingCell(l), countCell(l.Denied), ledger.State(u))
			start = ""
		}
	}
	rows.print(out, 2, 3, 4, 5, 6)
	return totals
}

// sparks show the course of each limit.
func sparks(out *term.Output, totals []ledger.Total) {
	name, amount := 0, 0
	for _, t := range totals {
		name, amount = max(name, ansi.StringWidth(t.Limit)), max(amount, len(notation.Tokens(t.Consumed)))
	}
	room := 60
	if out.Width > 0 {
		room = max(8, min(room, out.Width-name-amount-6))
	}
	for _, t := range totals {
		pad := strings.Repeat(" ", name-ansi.StringWidth(t.Limit))
		fmt.Fprintf(out, "  %s%s  %s  %*s\n", term.Plain(t.Limit), pad, out.Cyan(term.Spark(t.Series, room)), amount, notation.Tokens(t.Consumed))
	}
}

func amountCell(milli int64) string {
	if milli == 0 {
		return ""
	}
	return notation.Tokens(milli)
}

func countCell(n int64) string {
	if n == 0 {
		return ""
	}
	return notation.Number(n)
}

// missingCell is what is known to be missing of a limit.
func missingCell(l aggregator.LimitUsage) string {
	switch {
	case l.Unseen > 0 && l.Missing != 0:
		return notation.Tokens(l.Missing) + " and more"
	case l.Unseen > 0:
		return "unknown"
	}
	return amountCell(l.Missing)
}

// tellNotes tells plainly what to know about totals.
func tellNotes(out *term.Output, totals []ledger.Total) {
	var missing, unseen, denied, pending, repaired bool
	for _, t := range totals {
		missing, unseen = missing || t.Missing != 0, unseen || t.Unseen > 0
		repaired = repaired || t.Repaired != 0
		denied, pending = denied || t.Denied > 0, pending || t.Pending != 0
	}
	if missing {
		fmt.Fprintln(out, out.Yellow("Missing: used without a record of the stream, and not counted. 'dynalimit usage repair' books it."))
	}
	if unseen {
		fmt.Fprintln(out, out.Yellow("Unknown: buckets went unseen while the stream was not read: what they counted to the last is lost."))
	}
	if pending {
		fmt.Fprintln(out, out.Dim("Pending: counted, read from the buckets; the stream has not brought it yet."))
	}
	if repaired {
		fmt.Fprintln(out, out.Dim("Repaired: counted, and booked later because no record of it came."))
	}
	if denied {
		fmt.Fprintln(out, out.Dim("Denied: calls that the limit denied, as far as processes told: best effort."))
	}
}

// columns are the columns of a table, of which those without a value are left out.
type columns struct {
	titles []string
	rows   [][]string
}

func newColumns(titles ...string) *columns { return &columns{titles: titles} }

func (c *columns) add(cells ...string) { c.rows = append(c.rows, cells) }

// print prints the table, the columns named by their number at the right.
func (c *columns) print(out *term.Output, right ...int) {
	width := make([]int, len(c.titles))
	for _, row := range c.rows {
		for i, cell := range row {
			width[i] = max(width[i], ansi.StringWidth(cell))
		}
	}
	for _, i := range right {
		width[i] = max(width[i], min(width[i], 1)*len(c.titles[i])) // none stays none
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
