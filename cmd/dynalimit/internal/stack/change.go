package stack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// Change is what would happen to one resource.
type Change struct {
	// Action is Add, Modify, Remove, Import or Dynamic: not known before it happens.
	Action   string `json:"action"`
	Logical  string `json:"logical"`
	Physical string `json:"physical,omitempty"`
	Type     string `json:"type"`
	// Replacement is True, Conditional or False, "" where nothing can be replaced.
	Replacement string `json:"replacement,omitempty"`
	// Details are what changes of it.
	Details []Detail `json:"details,omitempty"`
}

// Detail is one property that changes.
type Detail struct {
	Property string `json:"property"`
	Before   string `json:"before,omitempty"`
	After    string `json:"after,omitempty"`
}

func changeOf(c types.Change) (Change, bool) {
	r := c.ResourceChange
	if r == nil {
		return Change{}, false
	}
	change := Change{
		Action: string(r.Action), Logical: aws.ToString(r.LogicalResourceId), Physical: aws.ToString(r.PhysicalResourceId),
		Type: aws.ToString(r.ResourceType), Replacement: string(r.Replacement),
	}
	for _, d := range r.Details {
		if d.Target == nil {
			continue
		}
		name := string(d.Target.Attribute)
		if property := aws.ToString(d.Target.Name); property != "" {
			name = property
		}
		detail := Detail{name, aws.ToString(d.Target.BeforeValue), aws.ToString(d.Target.AfterValue)}
		if !slices.Contains(change.Details, detail) { // one cause each, of the same change
			change.Details = append(change.Details, detail)
		}
	}
	return change, true
}

// TableError says which tables a deployment would lose.
type TableError struct {
	Replaced, Removed, Unclear []string
}

func (e *TableError) Error() string {
	var parts []string
	say := func(names []string, text string) {
		if len(names) > 0 {
			parts = append(parts, fmt.Sprintf(text, strings.Join(names, ", ")))
		}
	}
	say(e.Replaced, "would make new, empty tables in the place of %s: keep the names and keys that they have (see --param and --table), or deploy another stack and move to it")
	say(e.Removed, "would let go of the tables %s: keep them in the template (--budget has those of budgets), or delete the stack, which leaves tables as they are")
	say(e.Unclear, "may make new, empty tables in the place of %s, which is only known when it happens: name their properties outright instead of taking them from other resources")
	return "the deployment " + strings.Join(parts, "; and ") + "; nothing was changed"
}

// Refuse fails with a *TableError if a table would be replaced or removed, or might be.
func Refuse(changes []Change) error {
	e := &TableError{}
	for _, c := range changes {
		if !isTable(c.Type) {
			continue
		}
		name := c.Logical
		if c.Physical != "" {
			name += " (" + c.Physical + ")"
		}
		switch {
		case c.Action == string(types.ChangeActionRemove):
			e.Removed = append(e.Removed, name)
		case c.Replacement == string(types.ReplacementTrue):
			e.Replaced = append(e.Replaced, name)
		case c.Replacement == string(types.ReplacementConditional), c.Action == string(types.ChangeActionDynamic):
			e.Unclear = append(e.Unclear, name)
		}
	}
	if len(e.Removed)+len(e.Replaced)+len(e.Unclear) == 0 {
		return nil
	}
	return e
}
