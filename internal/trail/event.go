package trail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/audit"
)

// Fields are the fields of the target, by name. Values are anything that encoding/json
// writes; a nil value is an absent field. A secret is never a value here: see the comment
// of the package.
type Fields map[string]any

// Diff returns the fields that differ, sorted by name, as JSON before and after. It fails for a value that JSON
// cannot hold.
func Diff(before, after Fields) ([]audit.Change, error) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(names)
	var changes []audit.Change
	for _, name := range slices.Compact(names) {
		was, err := textOf(before[name])
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		is, err := textOf(after[name])
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		if !bytes.Equal(was, is) {
			changes = append(changes, audit.Change{Field: name, Before: was, After: is})
		}
	}
	return changes, nil
}

// textOf returns the JSON of a field's value. It is nil for a nil value, which is an absent
// field.
func textOf(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}
