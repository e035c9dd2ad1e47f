package live

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// Screen is what is to be drawn. It is pure: nothing in it asks for the time.
type Screen struct {
	// Title says what is looked at, Note what to know about it.
	Title, Note string
	// Rows are shown, sorted.
	Rows []Row
	// Choices are shown instead of rows.
	Choices []string
	// Last is the last reading, and Order the order by which its buckets were chosen.
	Last  Reading
	Order Order
	// Style is a terminal's, for its colours and its width in columns; 0 is as much as it takes.
	Style *term.Output
}

// Lines are the screen, none wider than the terminal.
func (s Screen) Lines() []string {
	lines := append(s.head(), s.body()...)
	for i := range lines {
		lines[i] = s.cut(lines[i])
	}
	return lines
}

func (s Screen) cut(line string) string {
	if s.Style.Width > 0 {
		line = ansi.Truncate(line, s.Style.Width, "…")
	}
	return s.Style.Drawn(line)
}

// head is what stands above the rows.
func (s Screen) head() []string {
	parts := []string{s.Last.At.Format("15:04:05 MST")}
	if s.Choices != nil {
		parts = append(parts, notation.Many(len(s.Choices), "resource"))
	} else {
		parts = append(parts, notation.Many(len(s.Rows), "limit")+" of "+notation.Many(len(s.Last.Buckets), "bucket"))
	}
	if s.Last.Units > 0 {
		parts = append(parts, fmt.Sprintf("%.4g read units", s.Last.Units))
	}
	lines := []string{s.Style.Bold(term.Plain(s.Title)), s.Style.Dim(strings.Join(parts, ", "))}
	if s.Note != "" {
		lines = append(lines, s.Style.Dim(s.Note))
	}
	if s.Last.Cut {
		lines = append(lines, s.Style.Yellow(s.leftOut()))
	}
	return append(lines, "")
}

// leftOut says which buckets are not shown.
func (s Screen) leftOut() string {
	if s.Last.Read > 0 {
		return fmt.Sprintf("The %s of all %s buckets: --most shows more.", s.Order, notation.Number(int64(s.Last.Read)))
	}
	return "Not all: " + notation.Many(len(s.Last.Buckets), "bucket") + " read, and there are more: --most reads more."
}

// body is what stands below the head.
func (s Screen) body() []string {
	switch {
	case s.Choices != nil && len(s.Choices) == 0:
		return []string{"No resource has limits of its own, or buckets.", "Name one with --resource, or an entity with --entity."}
	case s.Choices != nil:
		lines := make([]string, len(s.Choices))
		for i, name := range s.Choices {
			lines[i] = "  " + term.Plain(name)
		}
		return lines
	case len(s.Rows) == 0:
		return []string{"No buckets: a bucket is made by the first call."}
	}
	columns := s.columns()
	lines := []string{s.line(columns, func(c column) string { return c.pad(s.Style.Dim(c.title), c.title) })}
	for _, r := range s.Rows {
		lines = append(lines, s.line(columns, func(c column) string { return c.cell(s, r) }))
	}
	if s.Last.Cut && len(s.Rows) > farAbove { // the head has scrolled away
		lines = append(lines, s.Style.Yellow(s.leftOut()))
	}
	return lines
}

// farAbove is how many rows move the head out of most terminals.
const farAbove = 20

// line joins the cells of columns.
func (s Screen) line(columns []column, cell func(column) string) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = cell(c)
	}
	return strings.TrimRight(strings.Join(cells, "  "), " ")
}

// column is one column of the rows.
type column struct {
	title string
	width int
	// right says that it stands at the right.
	right bool
	text  func(r Row) string
	// paint colours a text; nil for none.
	paint func(s Screen, r Row, text string) string
}

func (c column) pad(styled, plain string) string {
	gap := strings.Repeat(" ", max(0, c.width-ansi.StringWidth(plain)))
	if c.right {
		return gap + styled
	}
	return styled + gap
}

func (c column) cell(s Screen, r Row) string {
	text := ansi.Truncate(term.Plain(c.text(r)), c.width, "…")
	if c.paint != nil {
		return c.pad(c.paint(s, r, text), text)
	}
	return c.pad(text, text)
}

// The names' columns are no narrower than this while another column can go.
const narrowName, widestBar, leastBar = 8, 24, 6

// columns are as many as fit, the most telling first.
func (s Screen) columns() []column {
	several, asked, quotas := map[string]bool{}, false, false
	for _, r := range s.Rows {
		several[r.Resource] = true
		asked, quotas = asked || r.Fits != nil, quotas || !r.WindowEnds.IsZero()
	}
	entity := s.fitted(column{title: "ENTITY", text: func(r Row) string { return r.Entity }})
	resource := s.fitted(column{title: "RESOURCE", text: func(r Row) string { return r.Resource }})
	limit := s.fitted(column{title: "LIMIT", text: func(r Row) string { return r.Limit }})
	bar := column{title: "", width: widestBar, text: func(Row) string { return "" }}
	used := s.fitted(column{title: "USED", right: true, text: usedText, paint: paint})
	left := s.fitted(column{title: "LEFT", right: true, text: func(r Row) string {
		return notation.InUnit(r.Unit, r.Remaining) + " of " + notation.InUnit(r.Unit, r.Burst)
	}})
	rate := s.fitted(column{title: "TAKEN", right: true, text: rateText})
	full := s.fitted(column{title: "FULL IN", right: true, text: func(r Row) string { return notation.Wait(r.Full) }})
	ends := s.fitted(column{title: "WINDOW ENDS IN", right: true, text: func(r Row) string {
		if r.WindowEnds.IsZero() {
			return "-"
		}
		return notation.Wait(r.WindowEnds.Sub(s.Last.At))
	}})
	fits := s.fitted(column{title: "FITS IN", right: true, text: fitsText})

	all := []*column{&entity, &resource, &limit, &bar, &used, &left, &rate, &full, &ends, &fits}
	drop := func(c *column) { c.width = 0 }
	if len(several) < 2 {
		drop(&resource)
	}
	if !quotas {
		drop(&ends)
	}
	if !asked {
		drop(&fits)
	}
	s.squeeze(all, &entity, &bar, []*column{&full, &ends, &left, &rate, &bar, &resource, &fits, &limit})
	bar.text = func(r Row) string { return term.Bar(min(1, r.Used), 0, bar.width) }
	bar.paint = paint
	var kept []column
	for _, c := range all {
		if c.width > 0 {
			kept = append(kept, *c)
		}
	}
	return kept
}

// squeeze narrows and drops columns until all stand in the width: first the bar, then the
// names of entities, then those that can go, in their order.
func (s Screen) squeeze(all []*column, entity, bar *column, expendable []*column) {
	over := func() int {
		sum := -2
		for _, c := range all {
			if c.width > 0 {
				sum += c.width + 2
			}
		}
		return sum - s.Style.Width
	}
	if s.Style.Width == 0 {
		return
	}
	narrow := func(c *column, least int) {
		if o := over(); o > 0 && c.width > least {
			c.width = max(least, c.width-o)
		}
	}
	narrow(bar, leastBar)
	for _, c := range expendable {
		narrow(entity, 2*narrowName)
		if over() > 0 {
			c.width = 0
		}
	}
	narrow(entity, 1)
}

// fitted is a column as wide as what stands in it.
func (s Screen) fitted(c column) column {
	c.width = ansi.StringWidth(c.title)
	for _, r := range s.Rows {
		c.width = max(c.width, ansi.StringWidth(term.Plain(c.text(r))))
	}
	return c
}

func usedText(r Row) string {
	switch {
	case r.Blocked != "":
		return "blocked"
	case r.Remaining < 0:
		return "in debt"
	}
	return fmt.Sprintf("%.0f%%", 100*r.Used)
}

// paint is red for an empty bucket, yellow for a nearly empty one.
func paint(s Screen, r Row, text string) string {
	switch {
	case r.Blocked != "" || r.Remaining <= 0:
		return s.Style.Red(text)
	case r.Used >= 0.8:
		return s.Style.Yellow(text)
	}
	return s.Style.Green(text)
}

func rateText(r Row) string {
	if r.Rate == nil {
		return "-"
	}
	if r.Unit == dynalimit.USD {
		return notation.Dollars(int64(*r.Rate)) + "/s"
	}
	return fmt.Sprintf("%.1f/s", *r.Rate)
}

func fitsText(r Row) string {
	switch {
	case r.Fits == nil:
		return "-"
	case *r.Fits == dynalimit.Never:
		return "never"
	case *r.Fits == 0:
		return "now"
	}
	return notation.Wait(*r.Fits)
}
