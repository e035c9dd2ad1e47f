package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/ledger"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// usageSummaryCmd shows a period at a glance.
type usageSummaryCmd struct {
	whose
	window
	period
}

// summary is a period, for programs.
type summary struct {
	From    time.Time         `json:"from"`
	To      time.Time         `json:"to"`
	Window  aggregator.Window `json:"window"`
	Windows windowCounts      `json:"windows"`
	Totals  []totalUsage      `json:"totals"`
}

// windowCounts says of how many windows more may come.
type windowCounts struct {
	All    int `json:"all"`
	Open   int `json:"open"`
	Closed int `json:"closed"`
	Final  int `json:"final"`
}

// totalUsage is one limit of a resource over the period.
type totalUsage struct {
	Resource string `json:"resource"`
	ledger.Limit
	Series []int64 `json:"series_millitokens"`
}

// summarize reads a period.
func summarize(by aggregator.Window, a asked, now time.Time, all usages) (summary, error) {
	var sums ledger.Book
	sums.Begin(a.starts(by, now))
	if err := book(&sums, all); err != nil {
		return summary{}, err
	}
	s := summary{
		From: a.From.In(a.zone), To: a.To.In(a.zone), Window: by, Totals: []totalUsage{},
		Windows: windowCounts{sums.Windows, sums.Open, sums.Closed, sums.Windows - sums.Open - sums.Closed},
	}
	for _, t := range sums.Totals() {
		s.Totals = append(s.Totals, totalUsage{t.Resource, ledger.Limit(t.LimitUsage), t.Series})
	}
	return s, nil
}

func (c usageSummaryCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	a, err := c.period.read(now(ctx), c.usual())
	if err != nil {
		return badInput("%w", err)
	}
	a = a.widened(c.By, now(ctx))
	a.namespace = g.Namespace
	return g.readingUsage(ctx, out, a.zone, func(_ *dynalimit.Repository, r *aggregator.Reader) error {
		s, err := summarize(c.By, a, now(ctx), c.find(ctx, r, aggregator.Query{From: a.From, To: a.To, Window: c.By}))
		if err != nil {
			return err
		}
		return out.Show(s, func() {
			if len(s.Totals) > 0 {
				fmt.Fprintf(out, "%s, by %s, %s\n\n", out.Bold(a.Text(a.zone)), c.By, term.Plain(c.title()))
			}
			s.show(out, a)
		})
	})
}

// show shows it to a person: the limits one after the other, in each the resources.
func (s summary) show(out *term.Output, a asked) {
	if len(s.Totals) == 0 {
		nothingUsed(out, a)
		return
	}
	for _, limit := range s.limits() {
		fmt.Fprintln(out, out.Bold(term.Plain(limit)))
		out.Bars(2, s.measures(out, limit))
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, out.Dim(s.Windows.text()))
	totals := make([]ledger.Total, len(s.Totals))
	for i, t := range s.Totals {
		totals[i] = ledger.Total{Resource: t.Resource, LimitUsage: aggregator.LimitUsage(t.Limit)}
	}
	tellTotals(out, totals)
}

// limits are their names, each once.
func (s summary) limits() []string {
	var names []string
	for _, t := range s.Totals {
		names = append(names, t.Limit.Limit)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

const (
	// course is how wide a sparkline of a summary is, and leastCourse how wide at least:
	// where there is less room there is none.
	course, leastCourse = 24, 8
	// besides is what a line of a summary has besides a sparkline and the amount: a short
	// name, a share, and what is between them.
	besides = 2 + 6 + 2 + 2 + 2 + len("  12 %")
)

// courseOf is how wide a sparkline is on a terminal, beside amounts of a width; 0 for none.
func courseOf(terminal, amount int) int {
	if terminal <= 0 {
		return course
	}
	if room := min(course, terminal-amount-besides); room >= leastCourse {
		return room
	}
	return 0
}

// measures are the bars of a limit, the largest first.
func (s summary) measures(out *term.Output, limit string) []term.Measure {
	var some []totalUsage
	var sum, largest int64
	for _, t := range s.Totals {
		if t.Limit.Limit == limit {
			some = append(some, t)
			sum, largest = notation.Sum(sum, max(0, t.Consumed)), max(largest, t.Consumed)
		}
	}
	slices.SortStableFunc(some, func(a, b totalUsage) int { return cmp.Compare(b.Consumed, a.Consumed) })
	amount := 0
	for _, t := range some {
		amount = max(amount, len(notation.Tokens(t.Consumed)))
	}
	bars, width := make([]term.Measure, len(some)), courseOf(out.Width, amount)
	for i, t := range some {
		text := fmt.Sprintf("%*s  %s", amount, notation.Tokens(t.Consumed), shareText(t.Consumed, sum))
		if width > 0 {
			text = term.Spark(t.Series, width) + "  " + text
		}
		bars[i] = term.Measure{Name: t.Resource, Text: text, Share: float64(t.Consumed) / float64(max(1, largest)), Paint: out.Green}
	}
	return bars
}

// shareText is a share of a sum: " 12 %".
func shareText(part, sum int64) string {
	if part <= 0 || sum <= 0 {
		return "      "
	}
	share := 100 * float64(part) / float64(sum)
	if share < 1 {
		return "  <1 %"
	}
	return fmt.Sprintf("%4.0f %%", share)
}

// text says what may still come.
func (w windowCounts) text() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(w.Open, "open, which may grow")
	add(w.Closed, "closed, which are summed once more a day after they end")
	add(w.Final, "final")
	return notation.Many(w.All, "window") + " of resources: " + strings.Join(parts, "; ") + "."
}

// tellTotals tells, limit by limit, what is pending, without records, and not known.
func tellTotals(out *term.Output, totals []ledger.Total) {
	for _, t := range totals {
		var parts []string
		add := func(yes bool, format string, args ...any) {
			if yes {
				parts = append(parts, fmt.Sprintf(format, args...))
			}
		}
		add(t.Pending != 0, "%s pending", notation.Tokens(t.Pending))
		add(t.Unrecorded != 0, "%s without records", notation.Tokens(t.Unrecorded))
		add(t.Unseen > 0, "%s unseen", notation.Many(t.Unseen, "bucket"))
		if len(parts) > 0 {
			fmt.Fprintf(out, "%s %s: %s\n", term.Plain(t.Resource), term.Plain(t.Limit), strings.Join(parts, ", "))
		}
	}
	tellNotes(out, totals)
}
