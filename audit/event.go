// Package audit has the records of administrative changes: of limits, entities, plans,
// buckets and namespaces by package admin, and of budgets by packages budget and credentials.
package audit

import (
	"encoding/json"
	"time"
)

// Event is one administrative change: its author, target and time, and the fields before and
// after. It was written in the transaction of its change. Its JSON has lower-case field
// names, and leaves out absent fields.
type Event struct {
	// ID is a ULID of 26 characters: ids sort as their events' times do.
	ID string `json:"id"`
	// Time is when the change was made, in UTC, to the millisecond.
	Time time.Time `json:"time"`
	// Principal is the author that the program named; empty if unknown.
	Principal string `json:"principal,omitempty"`
	// Action is the kind of change, for example "limits_set" or "org_updated".
	Action string `json:"action"`
	// Target is the changed thing. Of the limiter it is an entity's id, "$SYSTEM",
	// "$RESOURCE:gpt-4", "$PLAN:pro" or "$NAMESPACE:eu". Of a budget it is an organisation's id, or
	// "$PRICE:" and a model.
	Target string `json:"target"`
	// Resource is the part of the target that was changed: the limiter's resource, or
	// the app of a budget's organisation; empty for none.
	Resource string `json:"resource,omitempty"`
	// Reason is the author's reason for the change; empty for none.
	Reason string `json:"reason,omitempty"`
	// Changes are the fields that differ, in the order of their names; none if
	// everything was written as it was before.
	Changes []Change `json:"changes,omitempty"`
}

// Change is a field before and after a change.
type Change struct {
	// Field is the name of the field.
	Field string `json:"field"`
	// Before is its value before the change, as JSON, keys sorted and without spaces; nil
	// where the field was absent.
	Before json.RawMessage `json:"before,omitempty"`
	// After is its value after the change, as Before; nil where the field is absent.
	After json.RawMessage `json:"after,omitempty"`
}
