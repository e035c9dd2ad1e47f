package term

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// sample is the number of rows of a long list that determine the widths of its columns.
const sample = 100

// List is the format of a list.
type List[T any] struct {
	// Titles are the titles of the columns. Empty for a list of single words, which are never
	// cut.
	Titles []string
	// Row converts a value for people: one cell per title.
	Row func(T) []string
	// JSON converts a value for programs. Defaults to the value itself.
	JSON func(T) any
	// None is the text for an empty list.
	None string
}

// Stream prints a sequence as a table or as one JSON array while it reads it, and holds at most a hundred
// values. The first hundred rows determine the widths of the columns. It prints the values before an error, and
// returns the first error of reading or writing.
func Stream[T any](o *Output, all iter.Seq2[T, error], list List[T]) error {
	if o.JSON {
		return streamJSON(o, all, list.JSON)
	}
	rows := sheet{out: o, titles: list.Titles}
	for value, err := range all {
		if err != nil {
			rows.flushRows()
			return err
		}
		rows.addRow(list.Row(value))
		if o.failed != nil {
			return o.failed
		}
	}
	if rows.added == 0 && list.None != "" {
		fmt.Fprintln(o, list.None)
	}
	rows.flushRows()
	return o.failed
}

// streamJSON prints a sequence as one JSON array, element by element; convert, which may be nil, converts each
// value first. It returns the first error; the array then stays unfinished.
func streamJSON[T any](o *Output, all iter.Seq2[T, error], convert func(T) any) error {
	before := "[\n  "
	for value, err := range all {
		if err != nil {
			return err
		}
		var shown any = value
		if convert != nil {
			shown = convert(value)
		}
		text, err := json.MarshalIndent(shown, "  ", "  ")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprint(o, before+string(escapeControls(text))); err != nil {
			return err
		}
		before = ",\n  "
	}
	end := "\n]\n"
	if before[0] == '[' {
		end = "[]\n"
	}
	_, err := fmt.Fprint(o, end)
	return err
}

// First returns a sequence of the first n elements of all, errors included, and reads no further. It returns
// all itself if n is 0 or less.
func First[T any](all iter.Seq2[T, error], n int) iter.Seq2[T, error] {
	if n <= 0 {
		return all
	}
	return func(yield func(T, error) bool) {
		left := n
		for value, err := range all {
			left--
			if !yield(value, err) || left == 0 {
				return
			}
		}
	}
}

// sheet is a table that is printed as its rows arrive.
type sheet struct {
	out    *Output
	titles []string
	widths []int // set once the widths are known
	early  [][]string
	added  int
	whole  bool // columns are not cut
}

// addRow counts a row, and prints it or holds it until the first hundred have determined the widths of the
// columns. In a list without titles it prints the first cell at once.
func (s *sheet) addRow(row []string) {
	s.added++
	if len(s.titles) == 0 {
		fmt.Fprintln(s.out, Plain(row[0]))
		return
	}
	if s.widths != nil {
		s.printRow(row)
		return
	}
	if s.early = append(s.early, row); len(s.early) == sample {
		s.flushRows()
	}
}

// flushRows sets the widths of the columns from the held rows, and prints the titles and those rows. It does
// nothing the second time, without rows, and without titles.
func (s *sheet) flushRows() {
	if s.widths != nil || s.added == 0 || len(s.titles) == 0 {
		return
	}
	s.widths = make([]int, len(s.titles))
	for i, title := range s.titles {
		s.widths[i] = ansi.StringWidth(title)
	}
	for _, row := range s.early {
		for i, cell := range row {
			s.widths[i] = max(s.widths[i], ansi.StringWidth(Plain(cell)))
		}
	}
	wide := slices.Clone(s.widths)
	if fitWidths(s.widths, s.out.Width) && (!s.whole || slices.Equal(wide, s.widths)) {
		s.out.printRow(s.titles, s.widths, s.out.Dim)
	} else {
		s.widths = s.widths[:0] // too narrow for columns
	}
	for _, row := range s.early {
		s.printRow(row)
	}
	s.early = nil
}

// printRow prints a row in columns of s.widths. On a terminal that is too narrow for them it prints a block of
// lines, one for each cell with its title, without empty cells.
func (s *sheet) printRow(row []string) {
	if len(s.widths) > 0 {
		s.out.printRow(row, s.widths, nil)
		return
	}
	for i, cell := range row {
		cell = strings.TrimSpace(cell)
		line := cell
		if i > 0 {
			if cell == "" || cell == "-" {
				continue
			}
			line = "  " + strings.TrimSpace(s.titles[i]) + " " + cell
		}
		if line = Plain(line); !s.whole {
			line = ansi.Truncate(line, s.out.Width, "…")
		}
		fmt.Fprintln(s.out, line)
	}
}
