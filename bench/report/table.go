package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// row is one line of the table. A value without a bar is for information.
type row struct {
	what  string
	value float64
	unit  string
	bar   bar
	note  string
}

// bar is a bound on a value.
type bar struct {
	sign  string // ≤, ≥, =, or "" for none
	bound float64
}

// atMost returns the bound ≤ n.
func atMost(n float64) bar { return bar{"≤", n} }

// atLeast returns the bound ≥ n.
func atLeast(n float64) bar { return bar{"≥", n} }

// exactly returns the bound = n.
func exactly(n float64) bar { return bar{"=", n} }

// meetsBound reports whether a value meets the bound. Every value meets a bar without a sign.
func (b bar) meetsBound(v float64) bool {
	return b.sign == "" || v == b.bound || b.sign == "≤" && v < b.bound || b.sign == "≥" && v > b.bound
}

// cells returns the cells of a row: the measure, its value, the bound, whether it holds, and
// remarks.
func (r row) cells() []string {
	bound, verdict := "", ""
	if r.bar.sign != "" {
		bound, verdict = r.bar.sign+" "+number(r.bar.bound), "NO"
	}
	if r.bar.sign != "" && r.bar.meetsBound(r.value) {
		verdict = "yes"
	}
	return []string{r.what, strings.TrimSpace(number(r.value) + " " + r.unit), bound, verdict, r.note}
}

// number formats a value with three or more useful digits, and a whole number without a fraction.
func number(v float64) string {
	size := math.Abs(v)
	switch {
	case v == float64(int64(v)) && size < 1e6:
		return fmt.Sprintf("%d", int64(v))
	case size >= 100:
		return fmt.Sprintf("%.0f", v)
	case size >= 10:
		return fmt.Sprintf("%.1f", v)
	case size >= 0.1:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// printTable writes the rows as a Markdown table and returns the number of missed bars.
func printTable(w io.Writer, rows []row) (failed int, err error) {
	table := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	write := func(cells ...string) { fmt.Fprintf(table, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	write("measured", "result", "must be", "holds", "remark")
	write("---", "---", "---", "---", "---")
	for _, r := range rows {
		write(r.cells()...)
		if !r.bar.meetsBound(r.value) {
			failed++
		}
	}
	return failed, table.Flush()
}
