package manifest

import (
	"encoding/json"

	"github.com/dynalimit/dynalimit/admin"
)

// Action is the action of a change.
type Action string

// The actions, in printed order.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
	Adopt  Action = "adopt"  // the item already matches the file, and becomes managed
	Refuse Action = "refuse" // no change until somebody decides; the note explains how
)

// Actions are all actions.
var Actions = []Action{Create, Update, Delete, Adopt, Refuse}

// Field is a difference. From and To are empty for a missing value.
type Field struct {
	Name string `json:"field"` // such as rpm.capacity
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Change is a change of one source or of one entity's record.
type Change struct {
	Action Action `json:"action"`
	// Scope is the source; nil for a record.
	Scope *admin.Scope `json:"scope,omitempty"`
	// Entity is the entity of a record; empty for a source.
	Entity string `json:"entity,omitempty"`
	// Fields are the differences.
	Fields []Field `json:"fields,omitempty"`
	// Note explains the change, if it is not obvious.
	Note string `json:"note,omitempty"`

	config  admin.LimitConfig    // to be stored, with the live version
	record  admin.Entity         // to be stored, with the live version
	moves   bool                 // the parent changes
	sources []admin.ScopedConfig // live sources that are deleted with an entity
	// plan and planned are the entity's plans now and at the end. held and holds tell whether
	// their defaults limit it, so that everybody's limits do not.
	plan, planned string
	held, holds   bool
	grouped       bool // belongs to a group of resources, which defaults do not limit
	step, depth   int  // position in the order
}

// scope returns the scope of the changed source or, for a record, that of its entity.
func (c Change) scope() admin.Scope {
	if c.Scope != nil {
		return *c.Scope
	}
	return admin.Scope{Entity: c.Entity}
}

// What returns a text that names the changed item: "limits of plan pro on gpt-4", "record of entity key-1".
func (c Change) What() string {
	if c.Scope != nil {
		return "limits of " + c.Scope.String()
	}
	return "record of entity " + c.Entity
}

// Plan is the changes that make a table match a manifest.
type Plan struct {
	// Name is the name of the manifest.
	Name string `json:"name"`
	// Changes are in the order of their execution; refused ones come last.
	Changes []Change `json:"changes"`
	// Unchanged counts the sources and records that match the file.
	Unchanged int `json:"unchanged"`
	// Unmanaged counts those of them without a manager.
	Unmanaged int `json:"unmanaged"`
	// LeftOut counts the entities that the manifest manages and the file does not name.
	LeftOut int `json:"left_out"`
	// ByHand are sources of the file's entities and plans that are neither in the file nor
	// managed. They stay.
	ByHand []ByHand `json:"by_hand,omitempty"`
	// Raises are current raises of limits. They are no differences, and stay.
	Raises []Raised `json:"raises,omitempty"`
	// Warnings need attention: unknown names, blocks that stay or go, plans that lose their
	// limits.
	Warnings []string `json:"warnings,omitempty"`
}

// ByHand is a source that stays, because it is neither in the file nor managed.
type ByHand struct {
	// Scope is the source.
	Scope admin.Scope `json:"scope"`
	// Fields are its limits and marks.
	Fields []Field `json:"fields"`
}

// Raised is a raise of a limit at a source.
type Raised struct {
	// Scope is the source.
	Scope admin.Scope `json:"scope"`
	// Raise is the raise.
	Raise admin.Raise `json:"raise"`
}

// Drifts reports whether the plan has a change, also a refused one, or the table has a source by hand, for
// --exit-code of manifest plan.
func (p Plan) Drifts() bool { return len(p.Changes) > 0 || len(p.ByHand) > 0 }

// Count returns the number of changes with an action.
func (p Plan) Count(a Action) int {
	n := 0
	for _, c := range p.Changes {
		n += btoi(c.Action == a)
	}
	return n
}

// MarshalJSON encodes the plan, with changes as an empty list in place of null if it has none.
func (p Plan) MarshalJSON() ([]byte, error) {
	type plain Plan
	if p.Changes == nil {
		p.Changes = []Change{}
	}
	return json.Marshal(plain(p))
}

// Options permits further changes.
type Options struct {
	// Adopt permits adopting items without a manager.
	Adopt bool
	// AdoptFrom is the name of another manifest whose items may be adopted.
	AdoptFrom string
	// Prune deletes the manifest's entities that the file does not name.
	Prune bool
	// LiftBlocks lifts blocks that are not in the file. Without it they stay, because they may
	// have been set in an emergency.
	LiftBlocks bool
}

// Live is the content of a table.
type Live struct {
	// Configs are the configured sources.
	Configs map[admin.Scope]admin.LimitConfig
	// Unreadable maps stored sources that cannot be decoded to the reasons.
	Unreadable map[admin.Scope]string
	// Entities are the entities with a record.
	Entities map[string]admin.Entity
}
