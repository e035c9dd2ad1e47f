package term

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// gap is the space between two columns.
const gap = 2

// narrowest is the minimal width of a cut column.
const narrowest = 6

// Table prints rows under titles, in columns as wide as their content, without control characters. On a
// terminal that is too narrow it cuts the widest columns, with an ellipsis, or prints each row as a block of
// lines. Elsewhere it cuts nothing.
func (o *Output) Table(titles []string, rows [][]string) {
	s := sheet{out: o, titles: titles, early: rows, added: max(1, len(rows))}
	s.flushRows()
}

// WholeTable prints rows as Table does, but never cuts: if the columns do not fit, it prints
// each row as a block of lines. It is for amounts and times, which are wrong when cut.
func (o *Output) WholeTable(titles []string, rows [][]string) {
	s := sheet{out: o, titles: titles, early: rows, added: max(1, len(rows)), whole: true}
	s.flushRows()
}

// fitWidths narrows the widest columns in place until all, with gaps, fit into total columns; 0 means any
// width. It returns false if they cannot fit, and has then narrowed some.
func fitWidths(widths []int, total int) bool {
	for total > 0 {
		sum, widest := gap*(len(widths)-1), 0
		for i, w := range widths {
			sum += w
			if w > widths[widest] {
				widest = i
			}
		}
		if sum <= total {
			return true
		}
		if widths[widest] <= narrowest {
			return false
		}
		widths[widest]--
	}
	return true
}

// printRow prints cells in one line, each padded to its width, with style, which may be nil, applied to each.
// On a terminal it cuts longer cells; it replaces control characters.
func (o *Output) printRow(cells []string, widths []int, style func(string) string) {
	var line strings.Builder
	for i, cell := range cells {
		cell = Plain(cell)
		if o.Width > 0 {
			cell = ansi.Truncate(cell, widths[i], "…")
		}
		pad := max(0, widths[i]-ansi.StringWidth(cell)) + gap
		if style != nil {
			cell = style(cell)
		}
		line.WriteString(cell)
		if i < len(cells)-1 {
			line.WriteString(strings.Repeat(" ", pad))
		}
	}
	fmt.Fprintln(o, strings.TrimRight(line.String(), " "))
}

// Bar returns a text of width columns, such as ████▒▒░░: the share used as █ and the further share held as ▒.
// Both are rounded, and cut at the width.
func Bar(used, held float64, width int) string {
	full := min(width, max(0, int(used*float64(width)+0.5)))
	half := min(width-full, max(0, int((used+held)*float64(width)+0.5)-full))
	return strings.Repeat("█", full) + strings.Repeat("▒", half) + strings.Repeat("░", width-full-half)
}
