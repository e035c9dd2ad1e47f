package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// count is one measured number. It needs a figure if it is above free. detail has its parts, and may be
// empty.
type count struct {
	name   string
	n      int
	free   int
	detail string
}

// figures are the upper bounds of the counts.
type figures map[string]int

// header is the comment of figures.txt.
const header = `# The most of each count, which may only fall: docs/testing.md says what is counted.
# After a change that lowers counts: ` + command + ` -write
# A type that moves or gets another name takes its line with it.
`

// parseFigures reads lines of a name and a number. Lines that begin with # are comments.
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

// text is the content of figures.txt.
func (f figures) text() string {
	var b strings.Builder
	b.WriteString(header)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&b, "%s %d\n", name, f[name])
	}
	return b.String()
}

// compare returns the counts above their figure, the counts so far below it that the figure has to follow,
// and the figures without a count.
func (f figures) compare(counts []count) []string {
	var problems []string
	report := func(text string, args ...any) { problems = append(problems, fmt.Sprintf(text, args...)) }
	const lower = command + " -write"
	left := maps.Clone(f)
	for _, c := range counts {
		figure, ok := f[c.name]
		delete(left, c.name)
		switch {
		case !ok && c.free > 0 && c.n > c.free:
			report("%s: %d, at most %d without a figure of its own: take code out of the way, do not raise it", c.name, c.n, c.free)
		case !ok && c.n > c.free:
			report("%s: %d, without a figure; add it by %s", c.name, c.n, lower)
		case ok && c.n > figure:
			report("%s: %d, above its figure %d: take code out of the way, do not raise it", c.name, c.n, figure)
		case ok && figure-c.n > slack(figure):
			report("%s: %d, well below its figure %d; lower the figure by %s", c.name, c.n, figure, lower)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		report("%s: a figure of no count; rename its line, or remove it by %s", name, lower)
	}
	return problems
}

// slack is the distance by which a count may fall before its figure has to follow. With it two concurrent
// changes need not both change the same line. It is a twentieth, and at least two.
func slack(figure int) int { return max(2, figure/20) }

// lower returns the figures lowered to the counts. It raises none; it adds those of new counts
// that may have no free number, and drops those without a count above the free number.
func (f figures) lower(counts []count) figures {
	lowered := figures{}
	for _, c := range counts {
		figure, ok := f[c.name]
		switch {
		case ok && c.n > c.free:
			lowered[c.name] = min(figure, c.n)
		case !ok && c.free == 0:
			lowered[c.name] = c.n
		}
	}
	return lowered
}
