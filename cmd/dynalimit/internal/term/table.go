package term

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// gap is between two columns.
const gap = 2

// narrowest is the least width that a column is cut to.
const narrowest = 6

// Table prints rows under titles, in columns as wide as what stands in them. On a
// terminal that is too narrow the widest columns are cut, with an ellipsis, and where that
// does not do, each row is a block of lines; elsewhere nothing is cut. Control characters
// in a cell do not reach the terminal.
func (o *Output) Table(titles []string, rows [][]string) {
	s := sheet{out: o, titles: titles, early: rows, added: max(1, len(rows))}
	s.flush()
}

// WholeTable prints rows as Table does, but cuts nothing: where the columns do not stand
// beside each other as they are, each row is a block of lines. It is for amounts and times,
// which are wrong when they are cut.
func (o *Output) WholeTable(titles []string, rows [][]string) {
	s := sheet{out: o, titles: titles, early: rows, added: max(1, len(rows)), whole: true}
	s.flush()
}

// fit narrows the widest columns until all of them stand in total columns; false if they
// cannot.
func fit(widths []int, total int) bool {
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

func (o *Output) row(cells []string, widths []int, style func(string) string) {
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

// Bar is a share of 0 to 1 drawn in width columns, as in ████░░░░. What is held besides
// is drawn as ▒.
func Bar(used, held float64, width int) string {
	full := min(width, max(0, int(used*float64(width)+0.5)))
	half := min(width-full, max(0, int((used+held)*float64(width)+0.5)-full))
	return strings.Repeat("█", full) + strings.Repeat("▒", half) + strings.Repeat("░", width-full-half)
}
