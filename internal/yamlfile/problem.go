package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is something about a file, and where it stands.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`           // from 1; 0 if it is the file as a whole
	Column int    `json:"column"`         // from 1, in characters
	Path   string `json:"path,omitempty"` // such as plans.pro.resources.gpt-4.limits.rpm.capacity
	Text   string `json:"text"`           // the problem and its fix
}

// Error returns the file, the line, the column, the key and the text, as in "limits.yaml:3:7:
// plans.pro.default: …".
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// Problems are all problems of a file, in the order of the file.
type Problems []Problem

// mostShown is the most printed problems: a reader corrects the first ones
// and tries again.
const mostShown = 50

// Error returns a line for each of the first 50 problems, and a last line with the number of the others.
func (p Problems) Error() string {
	lines := make([]string, 0, min(len(p), mostShown)+1)
	for i, problem := range p {
		if i == mostShown {
			lines = append(lines, fmt.Sprintf("... and %d more: correct these first", len(p)-i))
			break
		}
		lines = append(lines, problem.Error())
	}
	return strings.Join(lines, "\n")
}

// SortInPlace sorts the problems by line, column and text, in place, and returns them.
func (p Problems) SortInPlace() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
	return p
}
