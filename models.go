package dynalimit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Limit is the configuration of one token bucket: the bucket holds at most Burst tokens
// and regains RefillAmount of them every RefillPeriod. All counts are whole tokens.
// Limit is a plain value; PerSecond, PerMinute, PerHour and PerDay make the usual ones,
// and WithBurst changes the burst. The zero value is not valid: a limit needs at least
// Name, Capacity and RefillPeriod.
type Limit struct {
	// Name identifies the limit in Amounts, for example "rpm" or "tpm".
	// Letters, digits, '-', '.' and '_', starting with a letter, at most 64.
	Name string
	// Capacity is the nominal allowance per RefillPeriod.
	Capacity int64
	// Burst is the most the bucket holds. Defaults to Capacity.
	Burst int64
	// RefillAmount is what the bucket regains per RefillPeriod. Defaults to
	// Capacity.
	RefillAmount int64
	// RefillPeriod is the time RefillAmount takes, in whole milliseconds;
	// stored configuration holds whole seconds.
	RefillPeriod time.Duration
}

// PerSecond allows n tokens a second, with a burst of n.
func PerSecond(name string, n int64) Limit { return per(name, n, time.Second) }

// PerMinute allows n tokens a minute, with a burst of n.
func PerMinute(name string, n int64) Limit { return per(name, n, time.Minute) }

// PerHour allows n tokens an hour, with a burst of n.
func PerHour(name string, n int64) Limit { return per(name, n, time.Hour) }

// PerDay allows n tokens per 24 hours, with a burst of n.
func PerDay(name string, n int64) Limit { return per(name, n, 24*time.Hour) }

func per(name string, n int64, period time.Duration) Limit {
	return Limit{Name: name, Capacity: n, Burst: n, RefillAmount: n, RefillPeriod: period}
}

// WithBurst returns the limit with a burst of n tokens.
func (l Limit) WithBurst(n int64) Limit {
	l.Burst = n
	return l
}

// withDefaults fills in Burst and RefillAmount.
func (l Limit) withDefaults() Limit {
	if l.Burst == 0 {
		l.Burst = l.Capacity
	}
	if l.RefillAmount == 0 {
		l.RefillAmount = l.Capacity
	}
	return l
}

// Amounts says how many whole tokens of each limit a call takes or gives back, by the
// name of the limit.
type Amounts map[string]int64

// names returns the names of the limits, sorted.
func (a Amounts) names() []string { return slices.Sorted(maps.Keys(a)) }

// Entity is anything that is limited: a key, a project, an organisation. An entity needs
// no record to be limited; a record gives it a parent.
type Entity struct {
	// ID identifies the entity in every call: letters, digits and _ . - : @,
	// starting with a letter or digit, at most 256.
	ID string
	// Name is free text for people. Defaults to none.
	Name string
	// ParentID is the entity whose buckets a cascading entity charges too; it
	// needs no record. Defaults to none.
	ParentID string
	// Cascade makes an acquire of this entity charge its parent as well; it needs a
	// ParentID. Defaults to false.
	Cascade bool
	// Plan names the plan whose limits apply where the entity has none of its own:
	// letters, digits and _ . - : @, starting with a letter or digit, at most 256.
	// Parents do not pass theirs on. Defaults to none.
	Plan string
	// ManagedBy names the tool that keeps the record, for tools: the limiter ignores it.
	// At most 64 bytes of letters, digits and _ . - : @ /. Defaults to none.
	ManagedBy string
	// Metadata is any JSON value for people and tools, at most 16 KB and 24 levels deep;
	// the limiter ignores it. It is returned byte for byte as it was given; what another
	// tool stored is returned as JSON. Defaults to none.
	Metadata json.RawMessage
	// CreatedAt is when the record was made, in whole seconds; zero before that.
	CreatedAt time.Time
	// Version counts the changes of the record: UpdateEntity asks for the one that was
	// read. It is 0 for a record that another tool made.
	Version int64
	// Deleting means that the entity's deletion has begun: DeleteEntity is to be called
	// again. Writing ignores it.
	Deleting bool
}

// ConfigLevel says where a limit came from.
type ConfigLevel string

// The levels of configuration, the most specific first. The first that has
// limits, or is unlimited, wins; lists are never merged. A level that blocks admits
// nothing, whatever more specific levels say.
const (
	LevelOverride      ConfigLevel = "override"       // WithLimits of the call
	LevelEntity        ConfigLevel = "entity"         // the entity's limits for the resource
	LevelEntityDefault ConfigLevel = "entity_default" // the entity's limits for every resource
	LevelPlan          ConfigLevel = "plan"           // the limits of the entity's plan for the resource
	LevelPlanDefault   ConfigLevel = "plan_default"   // the limits of the entity's plan for every resource
	LevelResource      ConfigLevel = "resource"       // the resource's limits for every entity
	LevelSystem        ConfigLevel = "system"         // the system's limits
	LevelOptions       ConfigLevel = "options"        // Options.Limits given to New
)

// UnavailablePolicy says what Acquire does when DynamoDB does not answer.
type UnavailablePolicy string

const (
	// Block fails the call with *UnavailableError.
	Block UnavailablePolicy = "block"
	// Allow admits the call with a lease whose Degraded reports true. If the bucket
	// answers but has no capacity, or too many writers, Allow does what Local does: the
	// store is alive, so its limits are not lifted.
	Allow UnavailablePolicy = "allow"
	// Local admits what fits this process's share of the limits as last known, see
	// Options.LocalShare, with a lease whose Degraded reports true. It denies everything
	// else. If no limits are known it does what Block does.
	Local UnavailablePolicy = "local"
)

// CascadeMode says how the buckets of an entity and its parents are charged.
type CascadeMode string

const (
	// CascadeParallel asks every level at once and gives back what the others
	// granted when one denies: 1 write unit a level.
	CascadeParallel CascadeMode = "parallel"
	// CascadeTransaction charges all levels in one transaction: 2 write units
	// a level, nothing visible in between.
	CascadeTransaction CascadeMode = "transaction"
)

// LimitStatus is what one limit of one entity holds.
type LimitStatus struct {
	// EntityID is the entity whose bucket it is: the call's, or a parent.
	EntityID string
	// Resource is the resource whose bucket it is.
	Resource string
	// Limit is the limit as the bucket holds it.
	Limit Limit
	// Level is where the limit came from; empty for a limit that is in the
	// bucket but no longer in the configuration.
	Level ConfigLevel
	// Requested is the amount asked for, in whole tokens.
	Requested int64
	// Remaining is what the bucket holds, in whole tokens rounded down;
	// negative in debt.
	Remaining int64
	// Exceeded means that Requested does not fit.
	Exceeded bool
	// RetryAfter is the exact wait until Requested fits with no other
	// traffic: 0 when it fits, Never when it exceeds the burst.
	RetryAfter time.Duration
	// Reset is the time until the bucket is full with no other traffic.
	Reset time.Duration
	// Degraded means that the bucket did not answer. Under Local the numbers are those
	// of this process's share, under Allow those of the bucket as last seen.
	Degraded bool
}

// limitText is a Limit as a person writes it: fields that have their default are left
// out.
type limitText struct {
	Name         string `json:"name"`
	Capacity     int64  `json:"capacity"`
	Burst        int64  `json:"burst,omitempty"`
	RefillAmount int64  `json:"refill_amount,omitempty"`
	Period       string `json:"period"`
}

// MarshalJSON writes a limit as a person would:
//
//	{"name":"rpm","capacity":600,"burst":900,"period":"1m"}
//
// Burst and RefillAmount are left out where they are the Capacity.
func (l Limit) MarshalJSON() ([]byte, error) {
	l = l.withDefaults()
	t := limitText{Name: l.Name, Capacity: l.Capacity, Period: periodText(l.RefillPeriod)}
	if l.Burst != l.Capacity {
		t.Burst = l.Burst
	}
	if l.RefillAmount != l.Capacity {
		t.RefillAmount = l.RefillAmount
	}
	return json.Marshal(t)
}

// UnmarshalJSON reads what MarshalJSON writes. The period is the text of a
// time.Duration, such as "1s", "90s", "1m" or "24h". It refuses fields that it does not
// know. The values are checked when the limit is used.
func (l *Limit) UnmarshalJSON(data []byte) error {
	var t limitText
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return fmt.Errorf(`dynalimit: limit: %w; write {"name":"rpm","capacity":600,"period":"1m"}, with burst and refill_amount where they differ`, err)
	}
	period, err := time.ParseDuration(t.Period)
	if err != nil {
		return invalid("period", "is %q for limit %q; write a duration such as \"1s\", \"1m\" or \"24h\"", t.Period, t.Name)
	}
	*l = Limit{Name: t.Name, Capacity: t.Capacity, Burst: t.Burst, RefillAmount: t.RefillAmount, RefillPeriod: period}.withDefaults()
	return nil
}

// periodText writes a duration without the parts that are 0: "1m", not "1m0s".
func periodText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// String is the policy as it is stored; empty for none.
func (p UnavailablePolicy) String() string { return string(p) }

// UnmarshalText reads "block", "allow" or "local"; empty is the default of where it
// is used.
func (p *UnavailablePolicy) UnmarshalText(text []byte) error {
	return unmarshalName(p, text, "on_unavailable", Block, Allow, Local)
}

// String is the mode's name; empty for none.
func (m CascadeMode) String() string { return string(m) }

// UnmarshalText reads "parallel" or "transaction"; empty is the default of where it
// is used.
func (m *CascadeMode) UnmarshalText(text []byte) error {
	return unmarshalName(m, text, "cascade", CascadeParallel, CascadeTransaction)
}

// String is the level's name; empty for none.
func (l ConfigLevel) String() string { return string(l) }

// unmarshalName sets to one of the names, or to none if the text is empty.
func unmarshalName[T ~string](to *T, text []byte, field string, names ...T) error {
	name := T(text)
	if name != "" && !slices.Contains(names, name) {
		return invalid(field, "is %q; write one of %q", name, names)
	}
	*to = name
	return nil
}

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
	// ManagedBy names the tool that keeps the level, for tools: the limiter ignores it.
	// Methods that change one aspect of a level, such as SetLimits and SetBlocked,
	// keep it. At most 64 bytes of letters, digits and _ . - : @ /. Defaults to none.
	ManagedBy string `json:"managed_by,omitempty"`
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
