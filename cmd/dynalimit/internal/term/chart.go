package term

import (
	"fmt"
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// heights are the steps of a sparkline.
var heights = []rune("▁▂▃▄▅▆▇█")

// Spark returns values as a text of at most width columns, such as ▁▃█▅·; the tallest step is the largest
// value. A · means zero and a - a negative value. With more values than columns, each column shows the largest
// of its values.
func Spark(values []int64, width int) string {
	columns := condenseValues(values, width)
	var largest int64
	for _, v := range columns {
		largest = max(largest, v)
	}
	line := make([]rune, len(columns))
	for i, v := range columns {
		switch {
		case v < 0:
			line[i] = '-'
		case v == 0:
			line[i] = '·'
		default:
			step := int(math.Ceil(float64(v) / float64(largest) * float64(len(heights))))
			line[i] = heights[max(1, min(step, len(heights)))-1]
		}
	}
	return string(line)
}

// condenseValues returns at most width values, each the largest of its part of values. It returns values itself
// if they fit or width is 0 or less.
func condenseValues(values []int64, width int) []int64 {
	if width <= 0 || len(values) <= width {
		return values
	}
	columns := make([]int64, width)
	for i := range columns {
		from, to := i*len(values)/width, (i+1)*len(values)/width
		columns[i] = values[from]
		for _, v := range values[from:to] {
			columns[i] = max(columns[i], v)
		}
	}
	return columns
}

// Measure is one bar of a chart.
type Measure struct {
	// Name precedes the bar, Text follows it.
	Name, Text string
	// Share is the filled part of the bar, from 0 to 1.
	Share float64
	// Paint colours the bar. Defaults to no colour.
	Paint func(string) string
}

const (
	// widestBar and leastBar are the maximal and minimal widths of bars. With less room there
	// are no bars.
	widestBar, leastBar = 32, 4
)

// Bars prints each of bars as a line: name, drawn bar and text in columns, indented by indent columns. On a
// terminal the bars get the available room. Without room it leaves bars out, then cuts names, then prints texts
// below names; it never cuts texts.
func (o *Output) Bars(indent int, bars []Measure) {
	name, text := 0, 0
	for _, b := range bars {
		name, text = max(name, ansi.StringWidth(Plain(b.Name))), max(text, ansi.StringWidth(Plain(b.Text)))
	}
	if o.Width > 0 && indent+min(name, narrowest)+gap+text > o.Width {
		for _, b := range bars {
			o.drawBelow(indent, b)
		}
		return
	}
	width := widestBar
	if o.Width > 0 {
		name = min(name, max(narrowest, o.Width-indent-text-2*gap-leastBar))
		if width = min(widestBar, o.Width-indent-name-text-2*gap); width < leastBar {
			width = 0
		}
	}
	for _, b := range bars {
		o.drawBar(strings.Repeat(" ", indent), b, name, text, width)
	}
}

// drawBar prints one line: the name, cut to name columns on a terminal, the bar of width columns, and the text,
// right-aligned in text columns. It prints no bar if width is 0.
func (o *Output) drawBar(indent string, b Measure, name, text, width int) {
	label := Plain(b.Name)
	if o.Width > 0 {
		label = ansi.Truncate(label, name, "…")
	}
	parts := []string{indent + label + strings.Repeat(" ", max(0, name-ansi.StringWidth(label)))}
	if width > 0 {
		drawn := Bar(min(1, max(0, b.Share)), 0, width)
		if b.Paint != nil {
			drawn = b.Paint(drawn)
		}
		parts = append(parts, drawn)
	}
	behind := Plain(b.Text)
	parts = append(parts, strings.Repeat(" ", max(0, text-ansi.StringWidth(behind)))+behind)
	fmt.Fprintln(o, strings.TrimRight(strings.Join(parts, strings.Repeat(" ", gap)), " "))
}

// drawBelow prints a measure without a bar: its name, cut to the terminal, and its text below, wrapped and
// indented by indent columns.
func (o *Output) drawBelow(indent int, b Measure) {
	fmt.Fprintln(o, ansi.Truncate(Plain(b.Name), o.Width, "…"))
	indent = min(indent, o.Width-1)
	for line := range strings.SplitSeq(ansi.Wrap(strings.TrimSpace(Plain(b.Text)), o.Width-indent, ""), "\n") {
		fmt.Fprintln(o, strings.Repeat(" ", indent)+line)
	}
}
