package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// row is one line of the table. A bar is what must hold; without one, the value
// is for information.
type row struct {
	what  string
	value float64
	unit  string
	bar   bar
	note  string
}

// bar is a bound on a value.
type bar struct {
	kind  byte // '<' at most, '>' at least, '=' equal, 0 none
	bound float64
}

func atMost(n float64) bar  { return bar{'<', n} }
func atLeast(n float64) bar { return bar{'>', n} }
func exactly(n float64) bar { return bar{'=', n} }

func (b bar) holds(v float64) bool {
	switch b.kind {
	case '<':
		return v <= b.bound
	case '>':
		return v >= b.bound
	case '=':
		return v == b.bound
	}
	return true
}

func (b bar) text() string {
	switch b.kind {
	case '<':
		return "≤ " + number(b.bound)
	case '>':
		return "≥ " + number(b.bound)
	case '=':
		return "= " + number(b.bound)
	}
	return ""
}

func (r row) verdict() string {
	switch {
	case r.bar.kind == 0:
		return ""
	case r.bar.holds(r.value):
		return "yes"
	}
	return "NO"
}

// number is a value with as many digits as are of use.
func number(v float64) string {
	size := v
	if size < 0 {
		size = -size
	}
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

// columnWidths are the characters of the widest cell of each column.
func columnWidths(cells [][]string) []int {
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// printTable writes the rows as a Markdown table and returns how many bars do not
// hold.
func printTable(w io.Writer, rows []row) (failed int, err error) {
	cells := [][]string{{"measured", "result", "must be", "holds", "remark"}}
	for _, r := range rows {
		cells = append(cells, []string{r.what, strings.TrimSpace(number(r.value) + " " + r.unit), r.bar.text(), r.verdict(), r.note})
		if !r.bar.holds(r.value) {
			failed++
		}
	}
	widths := columnWidths(cells)
	for n, line := range cells {
		var b strings.Builder
		for i, cell := range line {
			b.WriteString("| " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + " ")
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, width := range widths {
				b.WriteString("|" + strings.Repeat("-", width+2))
			}
			b.WriteString("|\n")
		}
		if _, err := io.WriteString(w, b.String()); err != nil {
			return failed, err
		}
	}
	return failed, nil
}
