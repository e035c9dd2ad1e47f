package main

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The layout, in pixels.
const (
	width, rowHeight, barHeight = 900, 44, 14
	top, bottom                 = 78, 30
	panelWidth                  = 190
	failedLeft, writesLeft      = 312, 580
	// ceiling is the writes a second that a partition takes.
	ceiling = 1000
)

// style is readable on light and on dark pages: the chart has a ground of its own.
const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 } .head { font-weight: 600 } .end { text-anchor: end }
  .ground { fill: #ffffff } .before { fill: #d9822b } .now { fill: #2f7de1 }
  .line { stroke: #8a929b } .ceiling { stroke: #c0392b; stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .ground { fill: #0d1117 } .ceiling { stroke: #ff7b72 }
  }
`

// canvas gathers the elements of a chart.
type canvas struct{ strings.Builder }

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

func (c *canvas) text(class string, x, y int, text string) {
	c.add(`<text class="%s" x="%d" y="%d">%s</text>`, class, x, y, escaped(text))
}

func (c *canvas) line(class string, x, y1, y2 int) {
	c.add(`<line class="%s" x1="%d" x2="%d" y1="%d" y2="%d"/>`, class, x, x, y1, y2)
}

// bar draws a value with its text behind it and behind another share of the panel.
func (c *canvas) bar(class string, left, y int, share, beyond float64, text string) {
	long := pixels(share)
	c.add(`<rect class="%s" x="%d" y="%d" width="%d" height="%d"/>`, class, left, y, long, barHeight)
	c.text("", left+max(long, pixels(beyond))+5, y+barHeight-3, text)
}

// pixels is how long a share of a panel is.
func pixels(share float64) int { return int(share*panelWidth + 0.5) }

// draw makes an SVG of the fleets: the share of their calls that fail, and the writes
// that they send.
func draw(fleets []fleet) string {
	end := top + rowHeight*len(fleets)
	mostFailed, mostWrites := 0.01, float64(ceiling)
	for _, f := range fleets {
		for _, r := range f.results() {
			mostFailed, mostWrites = max(mostFailed, r.failed), max(mostWrites, r.writes)
		}
	}
	var c canvas
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Calls failed and writes sent a second by fleet, before pacing and now">`, width, end+bottom, width, end+bottom)
	c.add("<style>%s</style>", style)
	c.add(`<rect class="ground" width="%d" height="%d" rx="8"/>`, width, end+bottom)
	c.text("title", 16, 28, "Many processes on one bucket: before writes were paced, and now")
	c.legend(16, 44)
	c.text("head", failedLeft, top-12, "calls failed")
	c.text("head", writesLeft, top-12, "writes sent a second")
	c.text("head end", width-12, top-12, "p99")
	for i, f := range fleets {
		c.row(f, top+rowHeight*i, mostFailed, mostWrites)
	}
	c.line("line", failedLeft, top, end)
	c.line("line", writesLeft, top, end)
	limit := writesLeft + pixels(ceiling/mostWrites)
	c.line("ceiling", limit, top, end)
	c.text("", limit+5, end+16, "1,000: what the partition takes")
	c.add("</svg>")
	return c.String()
}

func (c *canvas) legend(x, y int) {
	for _, l := range []struct{ class, text string }{{"before", "before"}, {"now", "now"}} {
		c.add(`<rect class="%s" x="%d" y="%d" width="14" height="14"/>`, l.class, x, y)
		c.text("", x+20, y+11, l.text)
		x += 80
	}
}

// row draws a fleet, what it came to before above what it comes to now.
func (c *canvas) row(f fleet, y int, mostFailed, mostWrites float64) {
	c.text("", 16, y+rowHeight/2, f.name)
	classes := []string{"now"}
	y += (rowHeight - barHeight) / 2
	if f.before != nil {
		classes = []string{"before", "now"}
		y -= barHeight / 2
	}
	for i, r := range f.results() {
		at := y + i*barHeight
		c.bar(classes[i], failedLeft, at, r.failed/mostFailed, 0, percent(r.failed))
		c.bar(classes[i], writesLeft, at, r.writes/mostWrites, ceiling/mostWrites, count(r.writes))
		c.text("end", width-12, at+barHeight-3, after(r.p99))
	}
}

// results are what there is of a fleet, before first.
func (f fleet) results() []result {
	if f.before == nil {
		return []result{f.now}
	}
	return []result{*f.before, f.now}
}

// percent is a share with two digits.
func percent(share float64) string {
	return strconv.FormatFloat(100*share, 'g', 2, 64) + " %"
}

// count is a whole number with a comma for the thousands.
func count(n float64) string {
	if n < 1000 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	whole := int(n + 0.5)
	return fmt.Sprintf("%d,%03d", whole/1000, whole%1000)
}

// after is a time with two or three digits.
func after(d time.Duration) string {
	switch {
	case d < 100*time.Microsecond:
		return "0 ms"
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
