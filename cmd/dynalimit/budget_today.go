package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// totalsJSON is one day as JSON.
type totalsJSON struct {
	Org string `json:"org_id"`
	App string `json:"app_id,omitempty"`
	budget.DayTotals
}

// barShare returns the number of characters that amount fills of a bar of barWidth characters for whole. It is
// 0 if amount is 0 or less, else 1 to barWidth. If whole is 0 or less, the bar is full.
func barShare(amount, whole int64) int {
	if amount <= 0 {
		return 0
	}
	if whole <= 0 || amount >= whole {
		return barWidth
	}
	return max(1, int(float64(amount)/float64(whole)*barWidth))
}

// printLabels prints for each label a bar of the used part of its daily quota, its cost and quota in dollars,
// and more's text. It adds the status of a label that is tight, exceeded or unpriced, and colours the bar by
// it.
func printLabels(out *term.Output, labels []budget.LabelTotals, more func(budget.LabelTotals) string) {
	bars := make([]term.Measure, len(labels))
	for i, l := range labels {
		text, colour := fmt.Sprintf("%s of %s, %.1f %%%s", dollars(l.CostMicros), dollars(l.Quota), l.Percent, more(l)), "32" // green
		switch l.Status {
		case prices.StatusTight:
			text, colour = text+", "+string(l.Status), "33" // yellow
		case prices.StatusExceeded:
			text, colour = text+", "+string(l.Status), "31" // red
		case prices.StatusUnpriced: // a service may have its price in its options
			text += ", no model with a price configured"
		}
		part := float64(l.CostMicros) / float64(max(1, l.Quota))
		if l.CostMicros > 0 {
			part = max(part, 0.5/barWidth) // at least one mark
		}
		bars[i] = term.Measure{
			Name: l.Label, Text: text, Share: part,
			Paint: func(drawn string) string { return out.Style(colour, drawn) },
		}
	}
	out.Bars(2, bars)
}

// callsSuffix returns the label's number of calls on the day as ", 2 calls", to follow its cost.
func callsSuffix(l budget.LabelTotals) string { return ", " + callsText(l.Requests) }

// callsText formats a number of calls: "no calls", "1 call", "2 calls".
func callsText(n int64) string {
	switch n {
	case 0:
		return "no calls"
	case 1:
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}

// dateOf formats a day of the library's form, 20260123, as 2026-01-23. It returns another text as
// it is.
func dateOf(day string) string {
	t, err := time.Parse("20060102", day)
	if err != nil {
		return day
	}
	return t.Format(time.DateOnly)
}

// dayName formats a day such as 20260123 or 2026-01-23 with its weekday, as "Fri 2026-01-23". It returns an
// invalid day as it is.
func dayName(day string) string {
	t, err := time.Parse(time.DateOnly, dateOf(day))
	if err != nil {
		return day
	}
	return t.Format("Mon " + time.DateOnly)
}

type todayCmd struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" optional:"" help:"An app's id. Default: the whole organisation."`
}

// Run prints today's total cost of an organisation or app, then each label's cost, quota and number of calls.
// It fails if the organisation or app does not exist.
func (c todayCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showExisting(ctx, b, out, c.Org, c.App, func(k *budget.Keeper) (totalsJSON, error) {
		totals, err := k.Totals(ctx, c.Org, c.App, "")
		return totalsJSON{c.Org, c.App, totals}, err
	}, func(j totalsJSON) {
		fmt.Fprintf(out, "%s  %s\n", out.Bold(dayName(j.Day)), dollars(j.CostMicros))
		printLabels(out, j.Labels, callsSuffix)
	})
}

type historyCmd struct {
	Org  string  `arg:"" help:"The organisation's id."`
	App  string  `arg:"" optional:"" help:"An app's id. Default: the whole organisation."`
	Days int     `help:"How many days, up to the last one shown." default:"14"`
	To   dayFlag `help:"The last day, like 2026-01-31. Default: today." placeholder:"DAY"`
}

// Validate refuses --days outside 1 to 3700.
func (c historyCmd) Validate() error {
	if c.Days < 1 || c.Days > 3700 {
		return fmt.Errorf("--days %d is not within 1 to 3700", c.Days)
	}
	return nil
}

// Run prints a chart of an organisation's or app's daily costs by label, for --days days up to --to or today.
// It fails if the organisation or app does not exist.
func (c historyCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showExisting(ctx, b, out, c.Org, c.App, func(k *budget.Keeper) ([]totalsJSON, error) {
		last := string(c.To)
		if last == "" {
			today, err := k.Totals(ctx, c.Org, c.App, "")
			if err != nil {
				return nil, err
			}
			last = today.Day
		}
		end, err := time.Parse("20060102", last)
		if err != nil {
			return nil, err
		}
		days := []totalsJSON{}
		for day, err := range k.History(ctx, c.Org, c.App, end.AddDate(0, 0, 1-c.Days).Format("20060102"), last) {
			if err != nil {
				return nil, err
			}
			days = append(days, totalsJSON{c.Org, c.App, day})
		}
		return days, nil
	}, func(days []totalsJSON) { drawChart(out, days) })
}

// marks distinguish the labels, in order of preference.
var marks = []struct{ mark, colour string }{{"█", "35"}, {"▒", "36"}, {"▓", "33"}, {"░", "34"}}

// drawChart prints a legend of the labels and one bar for each day, scaled to the most expensive day. Labels
// divide the bar by their costs, and the day's cost in dollars follows.
func drawChart(out *term.Output, days []totalsJSON) {
	var dearest int64
	styles := map[string]func(n int) string{}
	var legend []string
	for _, day := range days {
		dearest = max(dearest, day.CostMicros)
		for _, l := range day.Labels {
			if _, known := styles[l.Label]; !known {
				m := marks[len(styles)%len(marks)]
				styles[l.Label] = func(n int) string { return out.Style(m.colour, strings.Repeat(m.mark, n)) }
				legend = append(legend, styles[l.Label](1)+" "+l.Label)
			}
		}
	}
	fmt.Fprintf(out, "%s\n", strings.Join(legend, "  "))
	for _, day := range days {
		bar, filled := "", 0
		for _, l := range day.Labels {
			n := min(barShare(l.CostMicros, max(1, dearest)), barWidth-filled)
			bar += styles[l.Label](n)
			filled += n
		}
		fmt.Fprintf(out, "%s  %s%s  %s\n", out.Dim(dayName(day.Day)), bar, strings.Repeat(" ", barWidth-filled), dollars(day.CostMicros))
	}
}
