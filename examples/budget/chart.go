package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/budget"
)

const (
	width  = 40 // of a full quota
	column = 46 // with room for what follows it
)

// chart draws bars for a terminal.
type chart struct {
	out    io.Writer
	colour bool
	quota  int64 // µ$ that fill the width
	notes  []string
}

// coloured says that out is a terminal whose owner did not set NO_COLOR.
func coloured(out *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := out.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

var colours = map[string]string{"premium": "\x1b[35m", "standard": "\x1b[36m", "": "\x1b[33m"}

func (c *chart) paint(colour, text string) string {
	if !c.colour || text == "" {
		return text
	}
	return colours[colour] + text + "\x1b[0m"
}

func (c *chart) title(text string) {
	fmt.Fprintf(c.out, "%s\n\n%-12s %-9s %-*s %s\n", text, "hour", "next", column, "spent today", "premium + standard")
}

// event notes what the keeper reports, under the hour it happened in.
func (c *chart) event(_ context.Context, e budget.Event) {
	switch e.Kind {
	case budget.EventFlip:
		c.notes = append(c.notes, fmt.Sprintf("%s → %s", e.From, e.Label))
	case budget.EventThreshold:
		c.notes = append(c.notes, fmt.Sprintf("%s has used %d %%", e.Label, e.Percent))
	}
}

func (c *chart) hour(from time.Time, label string, totals budget.DayTotals) {
	bar, amounts, filled := "", "", 0
	for i, l := range totals.Labels {
		mark := []string{"█", "▒"}[i%2]
		n := int(l.CostMicros * width / c.quota)
		bar += c.paint(l.Label, strings.Repeat(mark, n))
		filled += n
		if i > 0 {
			amounts += " + "
		}
		amounts += dollars(l.CostMicros)
	}
	fmt.Fprintf(c.out, "%-12s %s %s%s %s", from.Format("Mon 15:04"), c.paint(label, fmt.Sprintf("%-9s", label)),
		bar, strings.Repeat(" ", max(0, column-filled)), amounts)
	if len(c.notes) > 0 {
		fmt.Fprintf(c.out, "  %s", c.paint("", "← "+strings.Join(c.notes, ", ")))
		c.notes = nil
	}
	fmt.Fprintln(c.out)
}

func (c *chart) day(d budget.DayTotals) {
	fmt.Fprintf(c.out, "\n%s  %s\n", d.Day, dollars(d.CostMicros))
	for _, l := range d.Labels {
		fmt.Fprintf(c.out, "  %-9s %4d calls  %s of %s  %5.1f %%\n",
			l.Label, l.Requests, dollars(l.CostMicros), dollars(l.Quota), l.Percent)
	}
}

func dollars(micros int64) string { return fmt.Sprintf("$%.2f", float64(micros)/1e6) }
