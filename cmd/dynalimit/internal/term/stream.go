package term

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// sample is how many rows of a long list decide how wide its columns are.
const sample = 100

// List says how the values of a list are shown.
type List[T any] struct {
	// Titles are those of the columns; none if values are single words, which are not cut.
	Titles []string
	// Row is a value for people: a cell for each title.
	Row func(T) []string
	// JSON is a value for programs. Defaults to the value.
	JSON func(T) any
	// None is what to say of an empty list.
	None string
}

// Stream shows a list as it comes, and holds no more than a hundred of its values: as a
// table whose columns are as wide as the first hundred rows need, or as one array of JSON.
// What came before an error is shown. It ends at the first error of either side.
func Stream[T any](o *Output, all iter.Seq2[T, error], list List[T]) error {
	if o.JSON {
		return streamJSON(o, all, list.JSON)
	}
	rows := sheet{out: o, titles: list.Titles}
	for value, err := range all {
		if err != nil {
			rows.flush()
			return err
		}
		rows.add(list.Row(value))
		if o.failed != nil {
			return o.failed
		}
	}
	if rows.added == 0 && list.None != "" {
		fmt.Fprintln(o, list.None)
	}
	rows.flush()
	return o.failed
}

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
		if _, err := fmt.Fprint(o, before+string(escaped(text))); err != nil {
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

// First is the beginning of a list: n values of it, or all if n is 0.
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

// sheet is a table that is printed as its rows come.
type sheet struct {
	out    *Output
	titles []string
	widths []int // set once columns have them
	early  [][]string
	added  int
	whole  bool // columns are not cut
}

func (s *sheet) add(row []string) {
	s.added++
	if len(s.titles) == 0 {
		fmt.Fprintln(s.out, Plain(row[0]))
		return
	}
	if s.widths != nil {
		s.print(row)
		return
	}
	if s.early = append(s.early, row); len(s.early) == sample {
		s.flush()
	}
}

// flush decides how wide the columns are, and prints the rows that waited for that.
func (s *sheet) flush() {
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
	if fit(s.widths, s.out.Width) && (!s.whole || slices.Equal(wide, s.widths)) {
		s.out.row(s.titles, s.widths, s.out.Dim)
	} else {
		s.widths = s.widths[:0] // too narrow for columns
	}
	for _, row := range s.early {
		s.print(row)
	}
	s.early = nil
}

// print prints a row, on a terminal too narrow for columns as a block of lines.
func (s *sheet) print(row []string) {
	if len(s.widths) > 0 {
		s.out.row(row, s.widths, nil)
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
