package dynalimit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Scope names one level of configuration: an entity's or a plan's (never both) for a
// resource, or for every resource if Resource is empty; a resource's for every entity; or,
// the zero Scope, the system's. As JSON it is {"entity":"key-1","resource":"gpt-4"}, and
// reading it refuses fields that it does not know.
type Scope struct {
	// Entity is the id of the entity whose limits they are. Defaults to none.
	Entity string `json:"entity,omitempty"`
	// Plan is the plan whose limits they are, see Entity.Plan. Defaults to none.
	Plan string `json:"plan,omitempty"`
	// Resource is the resource that they are for. Defaults to every resource.
	Resource string `json:"resource,omitempty"`
}

// String names the level: "system", "resource gpt-4", "plan pro", "entity key-1 on gpt-4".
func (s Scope) String() string {
	on := ""
	if s.Resource != "" {
		on = " on " + s.Resource
	}
	switch {
	case s.Entity != "":
		return "entity " + s.Entity + on
	case s.Plan != "":
		return "plan " + s.Plan + on
	case s.Resource != "":
		return "resource " + s.Resource
	}
	return "system"
}

// level is the level of configuration that the scope is of.
func (s Scope) level() ConfigLevel {
	switch {
	case s.Entity != "" && s.Resource != "":
		return LevelEntity
	case s.Entity != "":
		return LevelEntityDefault
	case s.Plan != "" && s.Resource != "":
		return LevelPlan
	case s.Plan != "":
		return LevelPlanDefault
	case s.Resource != "":
		return LevelResource
	}
	return LevelSystem
}

// normal spells a scope in its one way: _default_ is the name that "every resource" has in
// the table.
func (s Scope) normal() Scope {
	if s.Resource == schema.DefaultResource && (s.Entity != "" || s.Plan != "") {
		s.Resource = ""
	}
	return s
}

// owner is the scope as the table has it.
func (s Scope) owner() schema.ConfigOwner {
	return schema.ConfigOwner{Entity: s.Entity, Plan: s.Plan, Resource: s.Resource}.Normal()
}

func scopeOf(o schema.ConfigOwner) Scope {
	return Scope{Entity: o.Entity, Plan: o.Plan, Resource: o.Resource}.normal()
}

// check refuses a scope that names nothing. Fields are named with a prefix.
func (s Scope) check(prefix string) error {
	s = s.normal()
	switch {
	case s.Entity != "" && s.Plan != "":
		return invalid(prefix+"plan", "is %q beside the entity %q; name one of them", s.Plan, s.Entity)
	case s.Entity != "":
		if err := checkEntityID(prefix+"entity", s.Entity); err != nil {
			return err
		}
	case s.Plan != "":
		if err := checkPlan(prefix+"plan", s.Plan); err != nil {
			return err
		}
	}
	if s.Resource == "" {
		return nil
	}
	if reason := schema.CheckResource(s.Resource); reason != "" {
		return invalid(prefix+"resource", "%s", reason)
	}
	return nil
}

func checkPlan(field, plan string) error {
	if reason := schema.CheckEntity(plan); reason != "" {
		return invalid(field, "%s", reason)
	}
	return nil
}

// LimitConfig is what one level of configuration says. As JSON it is
// {"limits":[{"name":"rpm","capacity":600,"period":"1m"}],"blocked":true,"version":3}:
// what says nothing is left out, and reading it refuses fields that it does not know.
type LimitConfig struct {
	// Limits are sorted by name where they are returned. Without any, and not Unlimited,
	// the level leaves the limits to less specific ones.
	Limits []Limit `json:"limits,omitempty"`
	// Unlimited ends the search for limits: neither less specific levels nor
	// Options.Limits apply. Defaults to false; it excludes Limits.
	Unlimited bool `json:"unlimited,omitempty"`
	// Blocked admits no call, whatever more specific levels say: ErrBlocked. Defaults to
	// false.
	Blocked bool `json:"blocked,omitempty"`
	// OnUnavailable is what Acquire does when DynamoDB does not answer, unless the call or
	// a more specific level says otherwise. Defaults to none.
	OnUnavailable UnavailablePolicy `json:"on_unavailable,omitempty"`
	// Version counts the changes of what is stored, from the milliseconds since 1970 at
	// which it was made, so that what is made anew has another one; 0 while nothing is
	// stored. AnyVersion, in a change, stands for all of them.
	Version int64 `json:"version,omitempty"`
}

// AnyVersion makes a change whatever is stored.
const AnyVersion int64 = -1

// ScopedConfig is a level of configuration with what it says. As JSON it is
// {"scope":{"plan":"pro"},"config":{"unlimited":true}}, and reading it refuses fields that
// it does not know.
type ScopedConfig struct {
	// Scope is the level.
	Scope Scope `json:"scope,omitzero"`
	// Config is what it says.
	Config LimitConfig `json:"config,omitzero"`
	// Delete removes the level; then Config says nothing besides its Version.
	Delete bool `json:"delete,omitempty"`
}

// The same structs without their methods, for reading JSON.
type (
	scopeText        Scope
	limitConfigText  LimitConfig
	scopedConfigText ScopedConfig
)

// UnmarshalJSON reads a scope. The names are checked when it is used.
func (s *Scope) UnmarshalJSON(data []byte) error {
	t, err := strictly[scopeText]("scope", `{"entity":"key-1","resource":"gpt-4"}`, data)
	*s = Scope(t)
	return err
}

// UnmarshalJSON reads a configuration. The values are checked when it is used.
func (c *LimitConfig) UnmarshalJSON(data []byte) error {
	t, err := strictly[limitConfigText]("configuration", `{"limits":[{"name":"rpm","capacity":600,"period":"1m"}],"version":3}`, data)
	*c = LimitConfig(t)
	return err
}

// UnmarshalJSON reads a level with what it says. The values are checked when it is used.
func (c *ScopedConfig) UnmarshalJSON(data []byte) error {
	t, err := strictly[scopedConfigText]("change", `{"scope":{"plan":"pro"},"config":{"unlimited":true}}, or a scope with "delete":true`, data)
	*c = ScopedConfig(t)
	return err
}

// strictly reads JSON that has no fields besides those of T; example is how it is written.
func strictly[T any](what, example string, data []byte) (value T, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err = d.Decode(&value); err != nil {
		return value, fmt.Errorf("dynalimit: %s: %w; write %s", what, err, example)
	}
	return value, nil
}

// says reports whether a configuration says anything.
func (c LimitConfig) says() bool {
	return len(c.Limits) > 0 || c.Unlimited || c.Blocked || c.OnUnavailable != ""
}

// stored is the configuration as the table has it. It fails for one that cannot be
// stored. Fields are named with a prefix.
func (c LimitConfig) stored(prefix string) (schema.ConfigItem, error) {
	item := schema.ConfigItem{Unlimited: c.Unlimited, Blocked: c.Blocked, OnUnavailable: string(c.OnUnavailable), Version: c.Version}
	if err := checkPolicy(prefix+"onUnavailable", c.OnUnavailable); err != nil {
		return item, err
	}
	if c.Version < AnyVersion {
		return item, invalid(prefix+"version", "is %d; give the version that was read, 0 for none, or AnyVersion", c.Version)
	}
	if !c.says() {
		return item, invalid(prefix+"limits", "are none, and the level says nothing else; give at least one limit, or remove the level with DeleteConfig")
	}
	if len(c.Limits) == 0 {
		return item, nil
	}
	if c.Unlimited {
		return item, invalid(prefix+"unlimited", "is set beside limits; leave one of them out")
	}
	var err error
	item.Limits, err = configLimits(prefix+"limits", c.Limits)
	return item, err
}

// configOf is what a stored configuration says, nil for none stored.
func configOf(level ConfigLevel, c *schema.ConfigItem) (LimitConfig, error) {
	if c == nil {
		return LimitConfig{}, nil
	}
	limits, err := limitsOf(level, c.Limits)
	return LimitConfig{
		Limits: limits, Unlimited: c.Unlimited, Blocked: c.Blocked, OnUnavailable: knownPolicy(c.OnUnavailable), Version: c.Version,
	}, err
}

// knownPolicy is a stored policy; "" for an unknown one.
func knownPolicy(text string) UnavailablePolicy {
	if p := UnavailablePolicy(text); p == Block || p == Allow || p == Local {
		return p
	}
	return ""
}

// compareScopes orders scopes by what they name: the system, resources, plans, entities.
func compareScopes(a, b Scope) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Plan, b.Plan), cmp.Compare(a.Resource, b.Resource))
}

// sameScope is a scope that stands twice in a list, false if none does.
func sameScope(list []ScopedConfig) (Scope, bool) {
	sorted := slices.Clone(list)
	for i := range sorted {
		sorted[i].Scope = sorted[i].Scope.normal()
	}
	slices.SortFunc(sorted, func(a, b ScopedConfig) int { return compareScopes(a.Scope, b.Scope) })
	for i := 1; i < len(sorted); i++ {
		if sorted[i].Scope == sorted[i-1].Scope {
			return sorted[i].Scope, true
		}
	}
	return Scope{}, false
}
