package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Event is one administrative change.
type Event struct {
	// ID is a ULID: ids sort as their events' times do.
	ID string
	// Time is when the change was made.
	Time time.Time
	// Principal is who made it; empty for nobody known.
	Principal string
	// Action is what was done, for example "limits_set".
	Action string
	// Target is what was changed: an entity's id, "$SYSTEM", "$RESOURCE:gpt-4" or
	// "$PLAN:pro".
	Target string
	// Resource is the resource whose limits or bucket were changed; empty for none.
	Resource string
	// Changes are the fields that differ, in the order of their names.
	Changes []Change
}

// Change is a field before and after, each as JSON; nil where the field was, or is,
// absent.
type Change struct {
	Field         string
	Before, After json.RawMessage
}

// Fields are the fields of what is changed, by name. Values are whatever encoding/json
// writes; a nil value is an absent field.
type Fields map[string]any

// Diff returns the fields that differ. It fails for a value that JSON cannot hold.
func Diff(before, after Fields) ([]Change, error) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(names)
	var changes []Change
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
			changes = append(changes, Change{Field: name, Before: was, After: is})
		}
	}
	return changes, nil
}

func textOf(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}
