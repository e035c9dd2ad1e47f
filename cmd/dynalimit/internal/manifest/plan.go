package manifest

import (
	"encoding/json"

	"github.com/dynalimit/dynalimit/admin"
)

// Action is what a plan does about one item.
type Action string

// The actions, in the order in which they are shown.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
	Adopt  Action = "adopt"  // the item says what the file says already, and is managed from now on
	Refuse Action = "refuse" // nothing is changed until somebody decides; the note says how
)

// Actions are all of them.
var Actions = []Action{Create, Update, Delete, Adopt, Refuse}

// Field is what differs; From and To are empty for what is not there.
type Field struct {
	Name string `json:"field"` // such as rpm.capacity
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Change is what is to be done about one level, or one entity's record.
type Change struct {
	Action Action `json:"action"`
	// Scope is the level; nil for a record.
	Scope *admin.Scope `json:"scope,omitempty"`
	// Entity is the entity whose record it is; empty for a level.
	Entity string `json:"entity,omitempty"`
	// Fields are what differs.
	Fields []Field `json:"fields,omitempty"`
	// Note says why, where that is not plain.
	Note string `json:"note,omitempty"`

	config admin.LimitConfig    // to be stored, of the version that is live
	record admin.Entity         // to be stored, of the version that is live
	moves  bool                 // the parent changes
	levels []admin.ScopedConfig // that go with an entity, as they are live
	// plan and planned are those of the entity that it is about: what is live, and in the end.
	// held and holds say whether their defaults limit it, so that nothing of everybody's does.
	plan, planned string
	held, holds   bool
	grouped       bool // it is of a group of resources, which defaults do not limit
	step, depth   int  // when it is made
}

// scope is what it is about: a level, or all those of an entity.
func (c Change) scope() admin.Scope {
	if c.Scope != nil {
		return *c.Scope
	}
	return admin.Scope{Entity: c.Entity}
}

// What names the item: "limits of plan pro on gpt-4", "record of entity key-1".
func (c Change) What() string {
	if c.Scope != nil {
		return "limits of " + c.Scope.String()
	}
	return "record of entity " + c.Entity
}

// Plan is what makes a table say what a manifest says.
type Plan struct {
	// Name is that of the manifest.
	Name string `json:"name"`
	// Changes are in the order in which they are made; what is refused comes last.
	Changes []Change `json:"changes"`
	// Unchanged counts the levels and records that are as the file says.
	Unchanged int `json:"unchanged"`
	// Unmanaged counts those of them that no manifest manages.
	Unmanaged int `json:"unmanaged"`
	// LeftOut counts the entities that the manifest manages and the file does not name.
	LeftOut int `json:"left_out"`
	// ByHand are levels of the file's entities and plans that are not in the file and that no
	// manifest manages. They stay.
	ByHand []ByHand `json:"by_hand,omitempty"`
	// Raises are raises of limits that have not ended. They are no difference, and stay.
	Raises []Raised `json:"raises,omitempty"`
	// Warnings are what somebody should look at: names that stand neither in the file nor in
	// the table, blocks that stay or go, plans that lose their limits.
	Warnings []string `json:"warnings,omitempty"`
}

// ByHand is a level that stays, because the file does not have it and no manifest manages it.
type ByHand struct {
	// Scope is the level.
	Scope admin.Scope `json:"scope"`
	// Fields are its limits and marks.
	Fields []Field `json:"fields"`
}

// Raised is a raise of a limit at a level.
type Raised struct {
	// Scope is the level.
	Scope admin.Scope `json:"scope"`
	// Raise is the raise.
	Raise admin.Raise `json:"raise"`
}

// Drifts reports whether the table differs from the file.
func (p Plan) Drifts() bool { return len(p.Changes) > 0 || len(p.ByHand) > 0 }

// Count is how many changes are of an action.
func (p Plan) Count(a Action) int {
	n := 0
	for _, c := range p.Changes {
		n += btoi(c.Action == a)
	}
	return n
}

// MarshalJSON writes an empty list for no changes.
func (p Plan) MarshalJSON() ([]byte, error) {
	type plain Plan
	if p.Changes == nil {
		p.Changes = []Change{}
	}
	return json.Marshal(plain(p))
}

// Options say what a plan may do besides.
type Options struct {
	// Adopt takes over what no manifest manages.
	Adopt bool
	// AdoptFrom is the name of another manifest, whose items are taken over.
	AdoptFrom string
	// Prune deletes the manifest's entities that the file does not name.
	Prune bool
	// LiftBlocks lifts blocks that the file does not say. Without it they stay: somebody may
	// have set them in an emergency.
	LiftBlocks bool
}

// Live is what a table says.
type Live struct {
	// Configs are the levels that say anything.
	Configs map[admin.Scope]admin.LimitConfig
	// Unreadable are levels that are stored and cannot be understood, and why.
	Unreadable map[admin.Scope]string
	// Entities are those that have a record.
	Entities map[string]admin.Entity
}
