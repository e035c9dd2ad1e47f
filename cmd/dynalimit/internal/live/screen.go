package live

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// Screen is the content of the screen. It is pure and reads no clock.
type Screen struct {
	// Title describes the subject, Note is a remark about it.
	Title, Note string
	// Rows are the sorted rows.
	Rows []Row
	// Choices are shown instead of rows.
	Choices []string
	// Last is the last reading, and Order the order in which its buckets were chosen.
	Last  Reading
	Order Order
	// Style is the terminal's style: its colours and its width in columns. A width of 0 means
	// no limit.
	Style *term.Output
}

// Lines returns the lines of the whole screen with colours: head, then rows, choices or advice. Each is cut to
// the width of the terminal, if that is known.
func (s Screen) Lines() []string {
	lines := append(s.headLines(), s.bodyLines()...)
	for i := range lines {
		lines[i] = s.cutLine(lines[i])
	}
	return lines
}

// cutLine returns a line cut to the width of the terminal, if that is known, with characters replaced that the
// terminal cannot draw.
func (s Screen) cutLine(line string) string {
	if s.Style.Width > 0 {
		line = ansi.Truncate(line, s.Style.Width, "…")
	}
	return s.Style.ForTerminal(line)
}

// headLines returns the title, the time, size and read units of the reading, the note, and a warning if it left
// buckets out. The last line is empty.
func (s Screen) headLines() []string {
	parts := []string{s.Last.At.Format("15:04:05 MST")}
	if s.Choices != nil {
		parts = append(parts, notation.CountText(len(s.Choices), "resource"))
	} else {
		parts = append(parts, notation.CountText(len(s.Rows), "limit")+" of "+notation.CountText(len(s.Last.Buckets), "bucket"))
	}
	if s.Last.Units > 0 {
		parts = append(parts, fmt.Sprintf("%.4g read units", s.Last.Units))
	}
	lines := []string{s.Style.Bold(term.Plain(s.Title)), s.Style.Dim(strings.Join(parts, ", "))}
	if s.Note != "" {
		lines = append(lines, s.Style.Dim(s.Note))
	}
	if s.Last.Cut {
		lines = append(lines, s.Style.Yellow(s.leftOutText()))
	}
	return append(lines, "")
}

// leftOutText returns a sentence that the reading left buckets out, with the number of read ones and the flag
// --most, which shows more.
func (s Screen) leftOutText() string {
	if s.Last.Read > 0 {
		return fmt.Sprintf("The %s of all %s buckets: --most shows more.", s.Order, notation.GroupedNumber(int64(s.Last.Read)))
	}
	return "Not all: " + notation.CountText(len(s.Last.Buckets), "bucket") + " read, and there are more: --most reads more."
}

// bodyLines returns a line of titles and one for each row, else the resources to choose from, or advice if
// there are neither. After many rows it repeats the warning about buckets left out.
func (s Screen) bodyLines() []string {
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
	columns := s.fittingColumns()
	lines := []string{s.joinCells(columns, func(c column) string { return c.padText(s.Style.Dim(c.title), c.title) })}
	for _, r := range s.Rows {
		lines = append(lines, s.joinCells(columns, func(c column) string { return c.cellText(s, r) }))
	}
	if s.Last.Cut && len(s.Rows) > farAbove { // the head has scrolled away
		lines = append(lines, s.Style.Yellow(s.leftOutText()))
	}
	return lines
}

// farAbove is the number of rows that push the head out of most terminals.
const farAbove = 20

// joinCells calls cell for each column and returns the texts, two spaces apart, as one line without spaces at
// its end.
func (s Screen) joinCells(columns []column, cell func(column) string) string {
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
	// right aligns the column to the right.
	right bool
	text  func(r Row) string
	// paint colours a text; nil for no colour.
	paint func(s Screen, r Row, text string) string
}

// padText pads a cell with spaces to the column's width, on the left if the column is right-aligned. styled is
// the text with colours, plain the same without, to measure its width.
func (c column) padText(styled, plain string) string {
	gap := strings.Repeat(" ", max(0, c.width-ansi.StringWidth(plain)))
	if c.right {
		return gap + styled
	}
	return styled + gap
}

// cellText returns a row's cell in this column: cut, coloured and padded.
func (c column) cellText(s Screen, r Row) string {
	text := ansi.Truncate(term.Plain(c.text(r)), c.width, "…")
	if c.paint != nil {
		return c.padText(c.paint(s, r, text), text)
	}
	return c.padText(text, text)
}

// The columns of names are not narrower than this while another column can be dropped.
const narrowName, widestBar, leastBar = 8, 24, 6

// fittingColumns returns the columns to draw, with their widths, so that they fit the terminal. It omits
// columns without values and, on a narrow terminal, the least important ones.
func (s Screen) fittingColumns() []column {
	several, asked, quotas := map[string]bool{}, false, false
	for _, r := range s.Rows {
		several[r.Resource] = true
		asked, quotas = asked || r.Fits != nil, quotas || !r.WindowEnds.IsZero()
	}
	entity := s.fitWidth(column{title: "ENTITY", text: func(r Row) string { return r.Entity }})
	resource := s.fitWidth(column{title: "RESOURCE", text: func(r Row) string { return r.Resource }})
	limit := s.fitWidth(column{title: "LIMIT", text: func(r Row) string { return r.Limit }})
	bar := column{title: "", width: widestBar, text: func(Row) string { return "" }}
	used := s.fitWidth(column{title: "USED", right: true, text: usedText, paint: paintUsed})
	left := s.fitWidth(column{title: "LEFT", right: true, text: func(r Row) string {
		if r.InFlight != nil {
			return notation.GroupedNumber(*r.InFlight) + " of " + notation.GroupedNumber(r.Burst) + " in flight"
		}
		return notation.AmountInUnit(r.Unit, r.Remaining) + " of " + notation.AmountInUnit(r.Unit, r.Burst)
	}})
	rate := s.fitWidth(column{title: "TAKEN", right: true, text: rateText})
	full := s.fitWidth(column{title: "FULL IN", right: true, text: func(r Row) string {
		if r.InFlight != nil {
			return "-"
		}
		return notation.WaitText(r.Full)
	}})
	ends := s.fitWidth(column{title: "WINDOW ENDS IN", right: true, text: func(r Row) string {
		if r.WindowEnds.IsZero() {
			return "-"
		}
		return notation.WaitText(r.WindowEnds.Sub(s.Last.At))
	}})
	fits := s.fitWidth(column{title: "FITS IN", right: true, text: fitsText})

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
	s.squeezeColumns(all, &entity, &bar, []*column{&full, &ends, &left, &rate, &bar, &resource, &fits, &limit})
	bar.text = func(r Row) string { return term.Bar(min(1, r.Used), 0, bar.width) }
	bar.paint = paintUsed
	var kept []column
	for _, c := range all {
		if c.width > 0 {
			kept = append(kept, *c)
		}
	}
	return kept
}

// squeezeColumns narrows and drops columns of all in place until they fit: the bar, then the entity column,
// then the expendable ones in order. A dropped column gets the width 0. Without a known width it does nothing.
func (s Screen) squeezeColumns(all []*column, entity, bar *column, expendable []*column) {
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

// fitWidth returns a copy of the column with the width of its longest cell in s.Rows, or of its title if that
// is longer.
func (s Screen) fitWidth(c column) column {
	c.width = ansi.StringWidth(c.title)
	for _, r := range s.Rows {
		c.width = max(c.width, ansi.StringWidth(term.Plain(c.text(r))))
	}
	return c
}

// usedText formats the used share of a limit: a percentage, "in debt" or "blocked".
func usedText(r Row) string {
	switch {
	case r.Blocked != "":
		return "blocked"
	case r.Remaining < 0 && r.InFlight == nil:
		return "in debt"
	}
	return fmt.Sprintf("%.0f%%", 100*r.Used)
}

// paintUsed returns text coloured by the row's used share: red if blocked or without remaining tokens, yellow
// from 80 % on, else green.
func paintUsed(s Screen, r Row, text string) string {
	switch {
	case r.Blocked != "" || r.Remaining <= 0:
		return s.Style.Red(text)
	case r.Used >= 0.8:
		return s.Style.Yellow(text)
	}
	return s.Style.Green(text)
}

// rateText formats the row's rate as tokens a second, or as dollars for money, such as "1.5/s". It returns "-"
// if the rate is unknown.
func rateText(r Row) string {
	if r.Rate == nil {
		return "-"
	}
	if r.Unit == dynalimit.USD {
		return notation.Dollars(int64(*r.Rate)) + "/s"
	}
	return fmt.Sprintf("%.1f/s", *r.Rate)
}

// fitsText formats the time until the requested amount fits: a wait, "now" or "never". It returns "-" if the
// time is unknown or nothing is requested.
func fitsText(r Row) string {
	switch {
	case r.Fits == nil:
		return "-"
	case *r.Fits == dynalimit.Never:
		return "never"
	case *r.Fits == 0:
		return "now"
	}
	return notation.WaitText(*r.Fits)
}
