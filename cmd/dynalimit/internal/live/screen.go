package live

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// Screen is what is to be drawn. It is pure: nothing in it asks for the time.
type Screen struct {
	// Title says what is looked at, Note what to know about it.
	Title, Note string
	// Rows are shown, sorted and filtered; Of is how many there are without the filter.
	Rows []Row
	Of   int
	// Choices are shown instead of rows, Chosen one of them.
	Choices []string
	Chosen  int
	// From is the first row or choice that is shown.
	From int
	// Last is the last reading; Now, by the clock of this machine, is when the screen is
	// drawn, and Waiting how long a reading has been under way.
	Last    Reading
	Now     time.Time
	Waiting time.Duration
	// By is the order, Filter the filter, Typing says that it is being typed.
	By     Order
	Filter string
	Typing bool
	Paused bool
	Help   bool
	Every  time.Duration
	// Keys says that there is a keyboard.
	Keys bool
	// Style is a terminal's, for its colours and its width in columns; Height is that in
	// lines. A width or height of 0 is as much as it takes.
	Style  *term.Output
	Height int
}

// slow is how long a reading is under way before that is told.
const slow = time.Second

// Lines are the screen, none wider than the terminal, and no more than it has.
func (s Screen) Lines() []string {
	head := s.head()
	var foot []string
	if s.Keys {
		foot = []string{s.foot()}
	}
	room := -1
	if s.Height > 0 {
		room = max(0, s.Height-len(head)-len(foot))
	}
	lines := append(head, s.body(room)...)
	if s.Height > 0 {
		for len(lines)+len(foot) < s.Height {
			lines = append(lines, "")
		}
	}
	lines = append(lines, foot...)
	if s.Height > 0 && len(lines) > s.Height {
		lines = lines[:s.Height]
	}
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
	title := s.Style.Bold(term.Plain(s.Title))
	if s.Paused {
		title += "  " + s.Style.Yellow("paused")
	}
	lines := []string{title, s.Style.Dim(s.facts())}
	if s.Note != "" {
		lines = append(lines, s.Style.Dim(s.Note))
	}
	if s.Last.Cut {
		lines = append(lines, s.Style.Yellow("Not all: "+notation.Many(len(s.Last.Buckets), "bucket")+" read, and there are more."))
	}
	if s.Last.Err != nil {
		lines = append(lines, s.Style.Red(term.Plain(strings.TrimPrefix(s.Last.Err.Error(), "dynalimit: "))))
	}
	if s.Waiting >= slow {
		lines = append(lines, s.Style.Yellow(fmt.Sprintf("waiting for DynamoDB, %v; what is shown is older", s.Waiting.Truncate(time.Second))))
	}
	return append(lines, "")
}

// facts are about the last reading.
func (s Screen) facts() string {
	if s.Last.At.IsZero() {
		return "reading…"
	}
	parts := []string{s.Last.At.Format("15:04:05 MST")}
	switch {
	case s.Choices != nil:
		parts = append(parts, notation.Many(len(s.Choices), "resource"))
	case len(s.Rows) != s.Of:
		parts = append(parts, fmt.Sprintf("%d of %s match %q", len(s.Rows), notation.Many(s.Of, "limit"), s.Filter))
	default:
		parts = append(parts, notation.Many(s.Of, "limit")+" of "+notation.Many(len(s.Last.Buckets), "bucket"))
	}
	if s.Last.Units > 0 {
		parts = append(parts, fmt.Sprintf("%.4g read units", s.Last.Units))
	}
	if s.Keys {
		parts = append(parts, "every "+notation.Wait(s.Every))
	}
	return strings.Join(parts, ", ")
}

// foot is the line of keys.
func (s Screen) foot() string {
	switch {
	case s.Typing:
		return "/" + term.Plain(s.Filter) + "█  Enter keeps it, Esc drops it"
	case s.Choices != nil:
		return s.Style.Dim("q quit  ↑↓ choose  Enter show")
	}
	text := "q quit  s sort: " + string(s.By) + "  / filter  p pause  ? help"
	if s.Filter != "" {
		text += "  filter: " + term.Plain(s.Filter)
	}
	return s.Style.Dim(text)
}

var help = []string{
	"q, Ctrl-C   quit",
	"s           sort by: fullest, busiest, name",
	"/           filter by a part of a name; Esc drops the filter",
	"p, space    pause, go on",
	"r           read now",
	"↑ ↓ PgUp PgDn Home",
	"            scroll",
	"Esc         back to the resources",
	"?           this help, on and off",
	"",
	"A bar is what is used of the burst. In debt: more was taken than there was.",
	"/s is what was taken a second since the last reading.",
}

// body is what stands between head and foot, in room lines; a negative room is enough.
func (s Screen) body(room int) []string {
	fits := func(lines []string, from int) []string {
		from = max(0, min(from, len(lines)-1))
		lines = lines[min(from, len(lines)):]
		if room >= 0 && len(lines) > room {
			lines = lines[:room]
		}
		return lines
	}
	switch {
	case s.Help:
		return fits(help, 0)
	case s.Choices != nil:
		return fits(s.choices(), s.From)
	case len(s.Rows) == 0:
		return fits(s.nothing(), 0)
	}
	columns := s.columns()
	title := s.line(columns, func(c column) string { return c.pad(s.Style.Dim(c.title), c.title) })
	if room == 0 {
		return nil
	}
	rest := s.Rows[max(0, min(s.From, len(s.Rows)-1)):]
	if room > 0 && len(rest) > room-1 {
		rest = rest[:room-1]
	}
	lines := []string{title}
	for _, r := range rest {
		lines = append(lines, s.line(columns, func(c column) string { return c.cell(s, r) }))
	}
	return lines
}

// nothing says why there are no rows.
func (s Screen) nothing() []string {
	switch {
	case s.Last.At.IsZero() || s.Last.Err != nil:
		return nil
	case s.Filter != "":
		return []string{"Nothing matches: Esc drops the filter."}
	}
	return []string{"No buckets: a bucket is made by the first call."}
}

func (s Screen) choices() []string {
	if len(s.Choices) == 0 {
		if s.Last.At.IsZero() || s.Last.Err != nil {
			return nil
		}
		return []string{"No resource has limits of its own, or buckets.", "Name one with --resource, or an entity with --entity."}
	}
	lines := make([]string, len(s.Choices))
	for i, name := range s.Choices {
		lines[i] = "  " + term.Plain(name)
		if i == s.Chosen && s.Keys {
			lines[i] = s.Style.Bold("> " + term.Plain(name))
		}
	}
	return lines
}

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
	several, asked := map[string]bool{}, false
	for _, r := range s.Rows {
		several[r.Resource] = true
		asked = asked || r.Fits != nil
	}
	entity := s.fitted(column{title: "ENTITY", text: func(r Row) string { return r.Entity }})
	resource := s.fitted(column{title: "RESOURCE", text: func(r Row) string { return r.Resource }})
	limit := s.fitted(column{title: "LIMIT", text: func(r Row) string { return r.Limit }})
	bar := column{title: "", width: widestBar, text: func(Row) string { return "" }}
	used := s.fitted(column{title: "USED", right: true, text: usedText, paint: paint})
	left := s.fitted(column{title: "LEFT", right: true, text: func(r Row) string { return notation.Number(r.Remaining) + " of " + notation.Number(r.Burst) }})
	rate := s.fitted(column{title: "TAKEN", right: true, text: rateText})
	full := s.fitted(column{title: "FULL IN", right: true, text: func(r Row) string { return notation.Wait(r.Full) }})
	fits := s.fitted(column{title: "FITS IN", right: true, text: fitsText})

	all := []*column{&entity, &resource, &limit, &bar, &used, &left, &rate, &full, &fits}
	drop := func(c *column) { c.width = 0 }
	if len(several) < 2 {
		drop(&resource)
	}
	if !asked {
		drop(&fits)
	}
	s.squeeze(all, &entity, &bar, []*column{&full, &left, &rate, &bar, &resource, &fits, &limit})
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
