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
// terminal that is too narrow the widest columns are cut, with an ellipsis; elsewhere
// nothing is. Control characters in a cell do not reach the terminal.
func (o *Output) Table(titles []string, rows [][]string) {
	widths := make([]int, len(titles))
	for i, title := range titles {
		widths[i] = ansi.StringWidth(title)
	}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(Plain(cell)))
		}
	}
	fit(widths, o.Width)
	o.row(titles, widths, o.Dim)
	for _, row := range rows {
		o.row(row, widths, nil)
	}
}

// fit narrows the widest columns until all of them stand in total columns.
func fit(widths []int, total int) {
	if total <= 0 {
		return
	}
	for {
		sum, widest := gap*(len(widths)-1), 0
		for i, w := range widths {
			sum += w
			if w > widths[widest] {
				widest = i
			}
		}
		if sum <= total || widths[widest] <= narrowest {
			return
		}
		widths[widest]--
	}
}

func (o *Output) row(cells []string, widths []int, style func(string) string) {
	var line strings.Builder
	for i, cell := range cells {
		cell = Plain(cell)
		if o.Width > 0 {
			cell = ansi.Truncate(cell, widths[i], "…")
		}
		pad := widths[i] - ansi.StringWidth(cell) + gap
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

// Plain is a text without control characters: what users stored must not move the cursor
// or change the colours of whoever reads it.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// Bar is a share of 0 to 1 drawn in width columns, as in ████░░░░. What is held besides
// is drawn as ▒.
func Bar(used, held float64, width int) string {
	full := min(width, max(0, int(used*float64(width)+0.5)))
	half := min(width-full, max(0, int((used+held)*float64(width)+0.5)-full))
	return strings.Repeat("█", full) + strings.Repeat("▒", half) + strings.Repeat("░", width-full-half)
}
