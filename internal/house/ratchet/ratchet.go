// Package ratchet holds counts to figures in a file, which may only fall.
package ratchet

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Count is one measured number. It needs a figure if N is above Free.
type Count struct {
	Name    string
	N, Free int
	Detail  string // its parts, or the advice for lowering it; may be empty
}

// File is a file of figures and the command that counts.
type File struct {
	Path    string
	Command string // as people type it; with -write it lowers the figures
	Note    string // the comment at the head of the file: lines that begin with #
}

// Check compares counts with the figures of the file, and prints each count that has a figure. With write it
// lowers the figures first. The error names each count above its figure, each so far below that the figure
// must be lowered, and each figure without a count.
func (f File) Check(out io.Writer, counts []Count, write bool) error {
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return err
	}
	figures, err := parseFigures(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	if write {
		figures = figures.loweredTo(counts)
		if err := os.WriteFile(f.Path, []byte(f.Note+figures.text()), 0o644); err != nil { //nolint:gosec // a file of the repository
			return err
		}
	}
	printCounts(out, counts, figures)
	if problems := figures.findProblems(counts, f.Command+" -write"); len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}
	return nil
}

// printCounts writes a table of the counts that have a figure or are above their free number.
func printCounts(out io.Writer, counts []Count, figures figures) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "count\tfigure\t\n")
	for _, c := range counts {
		figure := fmt.Sprintf("≤ %d", c.Free)
		if n, ok := figures[c.Name]; ok {
			figure = fmt.Sprint(n)
		} else if c.N <= c.Free {
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t  %s", c.N, figure, c.Name)
		if c.Detail != "" {
			fmt.Fprintf(w, ": %s", c.Detail)
		}
		fmt.Fprintln(w)
	}
	w.Flush() //nolint:errcheck // to a terminal
}

// figures are the upper bounds of the counts.
type figures map[string]int

// parseFigures parses lines of a name and a number. It skips empty lines and lines that begin with #. It fails
// for any other line, and for a repeated name.
func parseFigures(text string) (figures, error) {
	f := figures{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		n, err := strconv.Atoi(line[at+1:])
		name := strings.TrimSpace(line[:max(at, 0)])
		if _, twice := f[name]; err != nil || name == "" || twice {
			return nil, fmt.Errorf("line %q has no name of its own and number", line)
		}
		f[name] = n
	}
	return f, nil
}

// text returns the content of the file of figures without its note: one line for each figure, sorted by name.
func (f figures) text() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&b, "%s %d\n", name, f[name])
	}
	return b.String()
}

// findProblems returns a problem for each count above its figure, each so far below that the figure must be
// lowered, and each figure without a count. The argument lower is the command that lowers figures.
func (f figures) findProblems(counts []Count, lower string) []string {
	var problems []string
	report := func(text string, args ...any) { problems = append(problems, fmt.Sprintf(text, args...)) }
	left := maps.Clone(f)
	for _, c := range counts {
		figure, ok := f[c.Name]
		delete(left, c.Name)
		switch {
		case !ok && c.Free > 0 && c.N > c.Free:
			report("%s: %d, at most %d without a figure of its own: lower the count, do not raise the figure", c.Name, c.N, c.Free)
		case !ok && c.N > c.Free:
			report("%s: %d, without a figure; add it by %s", c.Name, c.N, lower)
		case ok && c.N > figure:
			report("%s: %d, above its figure %d: lower the count, do not raise the figure", c.Name, c.N, figure)
		case ok && figure-c.N > slack(figure):
			report("%s: %d, well below its figure %d; lower the figure by %s", c.Name, c.N, figure, lower)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		report("%s: a figure of no count; rename its line, or remove it by %s", name, lower)
	}
	return problems
}

// slack returns how far a count may fall before its figure must follow: a twentieth of the figure, at least
// two. Two concurrent changes then need not both change the same line.
func slack(figure int) int { return max(2, figure/20) }

// loweredTo returns a copy of the figures lowered to the counts; it raises none. It adds figures for new counts
// that must have one, and drops those of counts within their free number.
func (f figures) loweredTo(counts []Count) figures {
	lowered := figures{}
	for _, c := range counts {
		figure, ok := f[c.Name]
		switch {
		case ok && c.N > c.Free:
			lowered[c.Name] = min(figure, c.N)
		case !ok && c.Free == 0:
			lowered[c.Name] = c.N
		}
	}
	return lowered
}
