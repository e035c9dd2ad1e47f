package admin

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// Scope names one source of configuration. Its owner is an Entity, a Plan or
// Everyone (one of the three), for a Resource or for every resource. A forgotten
// id changes nobody's limits: the zero Scope is refused. Its JSON is
// {"entity":"key-1","resource":"gpt-4"}; without an entity and a plan it is
// everyone's, and reading it refuses unknown fields.
type Scope struct {
	// Everyone means the limits of entities without their own: the system's, or with a
	// Resource that resource's. Defaults to false.
	Everyone bool `json:"-"`
	// Entity is the id of the owning entity. Defaults to none.
	Entity string `json:"entity,omitempty"`
	// Plan is the owning plan, see Entity.Plan. Defaults to none.
	Plan string `json:"plan,omitempty"`
	// Resource is the resource that they are for. Defaults to every resource.
	Resource string `json:"resource,omitempty"`
}

// String names the source: "system", "resource gpt-4", "plan pro", "entity key-1 on gpt-4".
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
	case s.Everyone:
		return "system"
	}
	return "nobody"
}

// LimitConfig is the configuration of one source. Its JSON is
// {"limits":[{"name":"rpm","capacity":600,"period":"1m"}],"blocked":true,"version":3}:
// it leaves out empty fields, and reading it refuses unknown fields.
type LimitConfig struct {
	// Limits are sorted by name where they are returned. Without any, and not Unlimited,
	// the source leaves the limits to less specific ones.
	Limits []dynalimit.Limit `json:"limits,omitempty"`
	// Extends merges Limits by name over those of the next less specific source with limits,
	// which may extend in turn: a name that Limits lack stays as it is there. Without it Limits
	// are the whole list, and no less specific source's limits apply. The system, a source without
	// Limits and Lifted, and a Compatible repository cannot extend. Defaults to false.
	Extends bool `json:"extends,omitempty"`
	// Lifted are names of limits of less specific sources that an extending source takes away:
	// calls may name them and are charged nothing for them. They are returned sorted.
	// Defaults to none.
	Lifted []string `json:"lifted,omitempty"`
	// Raises are the current raises (Limits.Raise), returned sorted by name. A change
	// ends the raises that it leaves out, and refuses a new one. They are
	// not part of the list. Defaults to none.
	Raises []Raise `json:"raises,omitempty"`
	// Unlimited ends the search for limits: neither less specific sources nor
	// Options.Limits apply. Nothing is counted then. Defaults to false; it excludes Limits.
	Unlimited bool `json:"unlimited,omitempty"`
	// Counted, beside Unlimited, makes the limits that would be in force without the source count its
	// calls, each in shadow (dynalimit.Limit.Shadow): they deny nothing, and calls are admitted
	// under every policy while their bucket does not answer. Limits of parents, and of groups, stay.
	// A Compatible repository refuses it. Defaults to false.
	Counted bool `json:"counted,omitempty"`
	// Blocked admits no call, even if a more specific source has limits: ErrBlocked. Defaults
	// to false.
	Blocked bool `json:"blocked,omitempty"`
	// BlockedExcept admits only calls that a more specific source admits (Admit):
	// ErrBlocked. It excludes Blocked. A Compatible repository refuses it. Defaults to false.
	BlockedExcept bool `json:"blocked_except,omitempty"`
	// Admit lifts blocks with exceptions (BlockedExcept) of less specific sources, and no other
	// block. On a group of resources only a source made for that group lifts one. Not of the
	// system, of a blocked source and of a Compatible repository. Defaults to false.
	Admit bool `json:"admit,omitempty"`
	// OnUnavailable is the policy of Acquire when DynamoDB does not answer, unless the call or
	// a more specific source sets one. Defaults to none.
	OnUnavailable dynalimit.UnavailablePolicy `json:"on_unavailable,omitempty"`
	// Groups are groups of the resource, only at the source of a resource for everyone. Calls
	// on the resource also charge the buckets of each group, of their entity and of its charged
	// parents, by the limits of records made for the group: those with the
	// group's name as their Scope.Resource. Groups of a group are not charged. Do not use a group as
	// the resource of calls: those would use other sources too, and rewrite its limits. At
	// most 8, returned in order. Defaults to none.
	Groups []string `json:"groups,omitempty"`
	// Only confirms, in a change, that limits go out of force:
	// those of less specific sources that Limits hide, and money. Without it such a change is
	// refused. It is not stored. Defaults to false.
	Only bool `json:"only,omitempty"`
	// ManagedBy names the tool that keeps the source, for tools: the limiter ignores it.
	// Methods that change one aspect of a source, such as Limits.Set and Limits.SetBlocked,
	// keep it. At most 64 bytes of letters, digits and _ . - : @ /. Defaults to none.
	ManagedBy string `json:"managed_by,omitempty"`
	// Version counts the changes of the stored source, from its creation time in milliseconds since
	// 1970, so that a new source has another one; 0 while nothing is
	// stored. AnyVersion, in a change, matches all of them.
	Version int64 `json:"version,omitempty"`
}

// AnyVersion makes a change match every stored version.
const AnyVersion int64 = -1

// ScopedConfig is a source of configuration with its content. Its JSON is
// {"scope":{"plan":"pro"},"config":{"unlimited":true}}, and reading it refuses unknown
// fields.
type ScopedConfig struct {
	// Scope is the source.
	Scope Scope `json:"scope,omitzero"`
	// Config is its content.
	Config LimitConfig `json:"config,omitzero"`
	// Delete removes the source, with its block; then only Config's
	// Version and Only count. Removing a missing source is not an error.
	Delete bool `json:"delete,omitempty"`
}

// The same structs without their methods, for reading JSON.
type (
	scopeText        Scope
	limitConfigText  LimitConfig
	scopedConfigText ScopedConfig
)

// UnmarshalJSON decodes a scope and refuses unknown fields. Without an entity and a plan it sets Everyone. It
// does not check the names; methods that use the scope do.
func (s *Scope) UnmarshalJSON(data []byte) error {
	t, err := decodeStrictly[scopeText]("scope", `{"entity":"key-1","resource":"gpt-4"}`, data)
	*s = Scope(t)
	s.Everyone = err == nil && t.Entity == "" && t.Plan == ""
	return err
}

// UnmarshalJSON decodes a configuration and refuses unknown fields. It does not check the values; methods that
// store the configuration do.
func (c *LimitConfig) UnmarshalJSON(data []byte) error {
	t, err := decodeStrictly[limitConfigText]("configuration", `{"limits":[{"name":"rpm","capacity":600,"period":"1m"}],"version":3}`, data)
	*c = LimitConfig(t)
	return err
}

// UnmarshalJSON decodes a source with its content and refuses unknown fields. It does not check the values;
// methods that store the configuration do.
func (c *ScopedConfig) UnmarshalJSON(data []byte) error {
	t, err := decodeStrictly[scopedConfigText]("change", `{"scope":{"plan":"pro"},"config":{"unlimited":true}}, or a scope with "delete":true`, data)
	*c = ScopedConfig(t)
	return err
}

// decodeStrictly decodes JSON into a T and refuses unknown fields. Its error begins with noun, the name of the
// input, and shows an example.
func decodeStrictly[T any](noun, example string, data []byte) (value T, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err = d.Decode(&value); err != nil {
		return value, fmt.Errorf("dynalimit: %s: %w; write %s", noun, err, example)
	}
	return value, nil
}

// sourceOf returns the kind of source of a valid scope; System for one without an owner and a resource.
func (s Scope) sourceOf() sources.Source {
	switch {
	case s.Entity != "" && s.Resource != "":
		return sources.Entity
	case s.Entity != "":
		return sources.EntityDefault
	case s.Plan != "" && s.Resource != "":
		return sources.Plan
	case s.Plan != "":
		return sources.PlanDefault
	case s.Resource != "":
		return sources.Resource
	}
	return sources.System
}

// normalized returns the scope with "" in place of _default_ as the resource of an entity or a plan. Both mean
// every resource.
func (s Scope) normalized() Scope {
	if s.Resource == schema.DefaultResource && (s.Entity != "" || s.Plan != "") {
		s.Resource = ""
	}
	return s
}

// asOwner returns the scope as the owner of a stored configuration.
func (s Scope) asOwner() schema.ConfigOwner {
	return schema.ConfigOwner{Entity: s.Entity, Plan: s.Plan, Resource: s.Resource}.Normal()
}

// configOf converts a stored configuration to a LimitConfig, with ended raises too; nil becomes the zero one.
// An unknown policy becomes "". If a limit is invalid, it leaves out all limits, and returns the error with the
// rest.
func configOf(source sources.Source, c *schema.ConfigItem) (LimitConfig, error) {
	if c == nil {
		return LimitConfig{}, nil
	}
	limits, err := limitsOf(storedField(source), c.Limits)
	return LimitConfig{
		Limits: limits, Extends: c.Extends, Lifted: c.Lifted, Raises: raisesOf(c.Raises), Unlimited: c.Unlimited, Counted: c.Counted, Blocked: c.Blocked, BlockedExcept: c.BlockedExcept, Admit: c.Admit,
		OnUnavailable: knownPolicy(c.OnUnavailable), Groups: c.Groups, ManagedBy: c.ManagedBy, Version: c.Version,
	}, err
}

// knownPolicy returns text as a policy, or "" if it is not Refuse, Allow or Local.
func knownPolicy(text string) dynalimit.UnavailablePolicy {
	if p := dynalimit.UnavailablePolicy(text); p == dynalimit.Refuse || p == dynalimit.Allow || p == dynalimit.Local {
		return p
	}
	return ""
}

// validate returns a *ValidationError for a scope without exactly one owner, or with an invalid name. It puts
// prefix before the names of fields.
func (s Scope) validate(prefix string) error {
	s = s.normalized()
	switch {
	case s.Everyone && s.Entity+s.Plan != "":
		return invalid(prefix+"everyone", "is set together with %s; leave one out", Scope{Entity: s.Entity, Plan: s.Plan})
	case !s.Everyone && s.Entity+s.Plan == "":
		return invalid(prefix+"entity", "is empty; name an entity or a plan, or set Everyone for the limits of all entities without limits of their own")
	case s.Entity != "" && s.Plan != "":
		return invalid(prefix+"plan", "is %q, and the entity is %q; name one of them", s.Plan, s.Entity)
	case s.Entity != "":
		if err := checkEntityID(prefix+"entity", s.Entity); err != nil {
			return err
		}
	case s.Plan != "":
		if err := checkEntityID(prefix+"plan", s.Plan); err != nil {
			return err
		}
	}
	if s.Resource == "" {
		return nil
	}
	if reason := schema.ResourceRule.Check(s.Resource); reason != "" {
		return invalid(prefix+"resource", "%s", reason)
	}
	return nil
}

// storedField returns the text that names stored limits of a source as the field of a *ValidationError.
func storedField(source sources.Source) string {
	return "stored limits of source " + string(source)
}

// limitsOf validates stored limits and converts them to dynalimit.Limit, sorted by name; nil for none. A
// *ValidationError has field.
func limitsOf(field string, stored []schema.ConfigLimit) ([]dynalimit.Limit, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	checked, at, reason := schema.CheckLimits(stored)
	if reason != "" {
		return nil, invalid(field+at, "%s", reason)
	}
	limits := make([]dynalimit.Limit, len(checked))
	for i, l := range checked {
		limits[i] = dynalimit.Limit(l)
	}
	return limits, nil
}
