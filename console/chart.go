package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// chart is stacked columns: positions along the time in percent, heights in pixels, so that the picture fits each
// width and its text keeps its size.
type chart struct {
	Title, Unit string
	// Columns are the columns, Lines the marks of the scale, and Limit a line at a limit.
	Columns []column
	Lines   []mark
	Limit   *mark
	Labels  []label
	// Series are the names of the colours, Height and Base the picture's height and its base line.
	Series       []string
	Height, Base int
	// Hint is the first text of the readout.
	Hint string
}

type column struct {
	Label, Sum string
	// X and Width are the place of the hit area, both with a percent sign.
	X, Width string
	Open     bool
	Parts    []part
	// Values are the amounts by series, for the table.
	Values []string
	// Read is the text of the readout.
	Read string
}

type part struct {
	Class               string
	X, Width, Y, Height string
}

type mark struct{ Y, TextY, Text string }

type label struct {
	X, Text, Anchor string
	// Few is "lo" for labels that a narrow page leaves out.
	Few string
}

// series is the amounts of one colour, in whole tokens or micro-dollars, one for each column.
type series struct {
	name   string
	values []int64
}

const (
	chartHeight, chartTop, chartBase = 180, 16, 160
	// leastMiddle is the least place, in percent, of a label that is centred below its column.
	leastMiddle = 6
)

// newChart returns a chart of stacked columns, one for each label, with the values of all series, as dollars if
// money; nil without labels. It draws a line at limit, unless that is 0 or above three times the highest
// column. If open, the last column is lighter.
func newChart(title, unit string, labels []string, all []series, money bool, limit int64, open bool) *chart {
	c := &chart{Title: title, Unit: unit, Height: chartHeight, Base: chartBase}
	n := len(labels)
	if n == 0 {
		return nil
	}
	sums, most := make([]int64, n), int64(1)
	for _, s := range all {
		c.Series = append(c.Series, s.name)
		for i, value := range s.values {
			sums[i] += max(value, 0)
		}
	}
	for _, sum := range sums {
		most = max(most, sum)
	}
	if limit > 3*most { // its line would flatten the columns
		limit = 0
	}
	scale := roundScale(float64(max(most, limit)))
	y := func(value float64) float64 { return chartBase - (chartBase-chartTop)*value/scale }
	for _, f := range []float64{0.5, 1} {
		text := formatAmount(money, int64(scale*f))
		c.Lines = append(c.Lines, mark{Y: formatPixels(y(scale * f)), TextY: formatPixels(y(scale*f) - 4), Text: strings.TrimSuffix(text, ".00")})
	}
	if limit > 0 {
		c.Limit = &mark{Y: formatPixels(y(float64(limit))), TextY: formatPixels(y(float64(limit)) - 4), Text: "limit " + strings.TrimSuffix(formatAmount(money, limit), ".00")}
	}
	w := 100 / float64(n)
	for i, text := range labels {
		col := column{Label: text, Sum: formatAmount(money, sums[i]), X: formatPercent(w * float64(i)), Width: formatPercent(w), Open: open && i == n-1}
		at, words := int64(0), []string(nil)
		for m, s := range all {
			value := max(s.values[i], 0)
			col.Values = append(col.Values, formatAmount(money, s.values[i]))
			if value == 0 {
				continue
			}
			top, bottom := y(float64(at+value)), y(float64(at))
			col.Parts = append(col.Parts, part{
				Class: classOfSeries(m, s.name), X: formatPercent(w*float64(i) + w*.15), Width: formatPercent(w * .7), Y: formatPixels(top), Height: formatPixels(max(.8, bottom-top)),
			})
			at += value
			words = append(words, s.name+" "+formatAmount(money, value))
		}
		if len(all) > 1 {
			col.Read = strings.Join(words, " · ")
		}
		c.Columns = append(c.Columns, col)
	}
	c.Labels = spacedLabels(labels, w)
	c.Hint = fmt.Sprintf("%d columns; point at one, or use ← →.", n)
	if open {
		c.Hint += " The last one is still open."
	}
	return c
}

// spacedLabels returns at most eight of the texts as labels below columns of the width w in percent, evenly
// spaced, the last at the end. Every second one is marked to be left out on a narrow page.
func spacedLabels(texts []string, w float64) (labels []label) {
	n := len(texts)
	every := (n + 7) / 8
	for i, text := range texts {
		back := n - 1 - i
		if back%every != 0 {
			continue
		}
		l := label{X: formatPercent(w * (float64(i) + .5)), Text: text, Anchor: "middle"}
		switch {
		case i == n-1:
			l.X, l.Anchor = "100%", "end"
		case w*(float64(i)+.5) < leastMiddle: // else a narrow page cuts its begin off
			l.X, l.Anchor = formatPercent(w*float64(i)), "start"
		}
		if back/every%2 == 1 {
			l.Few = "lo"
		}
		labels = append(labels, l)
	}
	return labels
}

// others is the name of the rest of a sum.
const others = "others"

// classOfSeries returns the CSS class of the m-th series. The rest, and series after the fifth, are grey.
func classOfSeries(m int, name string) string {
	if name == others || m > 4 {
		return "m4"
	}
	return "m" + strconv.Itoa(m)
}

// Colour returns the CSS class of the i-th series, for the legend.
func (c *chart) Colour(i int) string { return classOfSeries(i, c.Series[i]) }

// Label returns the title and the sum of each column as one text, for visitors without a picture.
func (c *chart) Label() string {
	words := make([]string, len(c.Columns))
	for i, col := range c.Columns {
		words[i] = col.Label + " " + col.Sum
	}
	return c.Title + ": " + strings.Join(words, ", ")
}

// Reversed returns the columns of the table, the newest first.
func (c *chart) Reversed() []column {
	reversed := make([]column, 0, len(c.Columns))
	for i := len(c.Columns) - 1; i >= 0; i-- {
		reversed = append(reversed, c.Columns[i])
	}
	return reversed
}

// roundScale returns the end of a chart's scale: the smallest of some round numbers that is at least most and
// 1.
func roundScale(most float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(math.Max(most, 1))))
	for _, k := range []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8} {
		if k*base >= most {
			return k * base
		}
	}
	return 10 * base
}

// formatPixels formats a length in pixels with one decimal, for SVG.
func formatPixels(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }

// formatPercent formats a length in percent with two decimals and a percent sign, for SVG.
func formatPercent(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) + "%" }
