// Package manifest is limits as code: it reads a manifest, compares it with what a table
// says, brings the table to say the same, and writes the manifest of a table.
package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/admin"
)

// DefaultName is who manages what a manifest without a name describes.
const DefaultName = "manifest"

// Manifest is what a table is to say.
type Manifest struct {
	// Name is who manages the items, as they tell in managed_by.
	Name string
	// Namespace is the tenant that the manifest is for. Defaults to the command's.
	Namespace string
	// Configs are the levels, without version and manager; limits are sorted by name and
	// have their defaults filled in.
	Configs map[admin.Scope]admin.LimitConfig
	// Entities are the entities that the manifest names.
	Entities map[string]Entity
	// Warnings are what may be meant, and may be a mistake.
	Warnings Problems
}

// Entity is what a manifest says of an entity besides its levels.
type Entity struct {
	// Record is the record that it is to have.
	Record admin.Entity
	// LimitsOnly says that the manifest has levels of the entity and nothing about a record:
	// none is made then, and one that the manifest does not manage is left alone.
	LimitsOnly bool
}

// Problem is something about a manifest, and where it stands.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`           // from 1; 0 if it is the file as a whole
	Column int    `json:"column"`         // from 1, in characters
	Path   string `json:"path,omitempty"` // such as plans.pro.resources.gpt-4.limits.rpm.capacity
	Text   string `json:"text"`           // what is wrong, and what to do
}

// Error is limits.yaml:3:7: plans.pro.default: what is wrong.
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

// Problems are all that is wrong with a manifest, in the order of the file.
type Problems []Problem

// mostShown is how many problems are printed: whoever reads them corrects the first ones
// and looks again.
const mostShown = 50

// Error has a line for each problem.
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

func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
	return p
}
