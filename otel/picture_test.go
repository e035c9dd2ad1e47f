package otel_test

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
)

// line is a query's answers over time; NaN is none.
type line struct {
	legend string
	values []float64
}

// chart is a panel of the dashboard.
type chart struct {
	title string
	lines []line
}

var colours = []string{"#1b6ca8", "#d1495b", "#3a8f4d", "#c77d0a", "#7b4fa3", "#5f6b73"}

// draw draws charts, four in a row.
func draw(charts []chart) []byte {
	const width, height, plot, left = 245, 165, 90, 44
	var b bytes.Buffer
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"9\">\n", 4*width, (len(charts)+3)/4*height)
	fmt.Fprintln(&b, `<rect width="100%" height="100%" fill="#fff"/>`)
	for i, c := range charts {
		most := 0.0
		for _, l := range c.lines {
			for _, v := range l.values {
				most = max(most, finite(v))
			}
		}
		if most == 0 {
			most = 1
		}
		fmt.Fprintf(&b, "<g transform=\"translate(%d %d)\"><text x=\"6\" y=\"14\" font-size=\"11\" font-weight=\"bold\">%s</text>\n", i%4*width, i/4*height, html.EscapeString(c.title))
		fmt.Fprintf(&b, "<path d=\"M%d 24V%dH%d\" fill=\"none\" stroke=\"#999\"/><text x=\"%d\" y=\"32\" text-anchor=\"end\">%s</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text>\n",
			left, 24+plot, width-8, left-4, strconv.FormatFloat(most, 'g', 3, 64), left-4, 24+plot)
		for k, l := range c.lines {
			colour, pen := colours[k%len(colours)], 'M'
			fmt.Fprintf(&b, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.3\" d=\"", colour)
			for at, v := range l.values {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					pen = 'M'
					continue
				}
				fmt.Fprintf(&b, "%c%d %.1f", pen, left+at*(width-left-8)/len(l.values), 24+plot*(1-v/most))
				pen = 'L'
			}
			fmt.Fprintln(&b, `"/>`)
			if k < 6 {
				fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" fill=\"%s\" font-size=\"8\">%s</text>\n", 8+k%2*122, 126+k/2*11, colour, html.EscapeString(l.legend))
			}
		}
		fmt.Fprintln(&b, "</g>")
	}
	fmt.Fprintln(&b, "</svg>")
	return b.Bytes()
}

// finite is a value that can be drawn, or 0.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
