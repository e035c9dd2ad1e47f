package dynalimit

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

// resolvedConfig is what the stored configuration says about an entity on a
// resource. It is never changed once built.
type resolvedConfig struct {
	// limits is sorted by name, with every default filled in.
	limits []Limit
	*configKind
	// parentID is that of the entity's record.
	parentID string
	// readAt and tick were taken before the read: the corrected time in
	// milliseconds and the repository's tick.
	readAt, tick int64
	// compiled is what the limits make of a bucket, nil without limits.
	compiled *plan.Config
	// fallback is what the limits of a limiter make of it, for an entity
	// without any.
	fallback atomic.Pointer[compiledFallback]
	// asParent is what calls of the entity's children charge by, nil until it is needed.
	asParent atomic.Pointer[plan.Config]
	// seldom is what few have, nil for none of it.
	seldom *seldomConfig
}

// seldomConfig is what few configurations have.
type seldomConfig struct {
	// after is what the same items say once the first raise has ended, nil without a raise.
	after *resolvedConfig
	// given are the items of the plan that calls give; nil where the record names the plan, or none
	// is given.
	given *planItems
}

// afterRaise is what the same items say once the first raise has ended, nil without a raise.
func (c *resolvedConfig) afterRaise() *resolvedConfig {
	if c == nil || c.seldom == nil {
		return nil
	}
	return c.seldom.after
}

// givenPlan are the items of the plan that calls give, nil for none.
func (c *resolvedConfig) givenPlan() *planItems {
	if c.seldom == nil {
		return nil
	}
	return c.seldom.given
}

// configKind is what many configurations say alike: those of a repository share it, so
// that it takes no room in a cache of many. It is never changed.
type configKind struct {
	// level is the level that won: where the limits came from, or which is unlimited; ""
	// when no level says either.
	level levels.Level
	// blocked is the level that admits nothing, "" for none.
	blocked levels.Level
	// plan is the plan that the entity's record names, or that the call gives, "" for none.
	plan string
	// onUnavailable is the policy of the most specific level that has one, and
	// systemPolicy the system's own; "" for none.
	onUnavailable, systemPolicy UnavailablePolicy
	// permanent means that the limits are the entity's own, so that its bucket has no
	// ttl.
	permanent bool
	// unlimited means that the level that won lifts all limits, Options' too. counted means that a
	// level is unlimited and that less specific limits, or else Options', count its calls.
	unlimited, counted bool
	// cascade and detached are those of the entity's record.
	cascade, detached bool
	// record means that the entity has a record that is not being deleted, and deleting that its
	// record is. recorded means that it has such a record, or a level of its own for the resource or
	// for all resources.
	record, deleting, recorded bool
	// group means that it is of a group of resources.
	group bool
	// joined are the groups of the resource, sorted, with commas between; a group has none.
	joined string
}

// mostKinds bounds how many kinds are known at a time.
const mostKinds = 1000

// configKinds are the kinds of a repository's configurations. The zero value is ready.
type configKinds struct {
	mu    sync.Mutex
	known map[configKind]*configKind
}

// share is the one kind that says what k says.
func (s *configKinds) share(k *configKind) *configKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.known[*k]; one != nil {
		return one
	}
	if s.known == nil || len(s.known) == mostKinds { // those in use live on with their configurations
		s.known = map[configKind]*configKind{}
	}
	s.known[*k] = k
	return k
}

// configItems are the items a configuration is resolved from; nil for one that
// does not exist.
type configItems struct {
	meta schema.Item
	config.Items
	// group means that they are of a group of resources: only records made for it count,
	// because any other would cap the sum of all resources at the limits of one.
	group bool
	// given are the items of the plan, if the call gives it.
	given *planItems
	// readAt and tick were taken before the first of them was read.
	readAt, tick int64
}

// planItems are the items of a plan for a resource and for every resource. What is read again and has
// not changed keeps its value, so that configurations made of it stay.
type planItems struct {
	plan     string
	own, all schema.Item
}

// resolveConfig applies the levels of configuration. It fails with a *ValidationError if
// the winning item cannot be understood, because then it is not known what it limits.
func resolveConfig(items *configItems) (*resolvedConfig, error) {
	v, limits, from, err := items.verdict()
	if err != nil {
		return nil, err
	}
	record := schema.DecodeLink(items.meta)
	if items.given != nil {
		record.Plan = items.given.plan
	}
	cfg := &resolvedConfig{
		limits: limits, parentID: record.ParentID, readAt: items.readAt, tick: items.tick,
		configKind: &configKind{
			level: v.Level, blocked: v.Blocked, plan: record.Plan,
			onUnavailable: UnavailablePolicy(v.Policy), systemPolicy: UnavailablePolicy(v.SystemPolicy),
			permanent: slices.ContainsFunc(from, levels.Level.OfEntity), unlimited: v.Unlimited, counted: v.Counted != "", cascade: record.Cascade, detached: record.Detached, group: items.group,
			record: items.meta != nil && !record.Deleting, deleting: record.Deleting,
		},
	}
	if items.given != nil {
		cfg.seldom = &seldomConfig{given: items.given}
	}
	cfg.recorded = cfg.record || items.Entity != nil || items.EntityDefault != nil
	if !items.group { // groups are not transitive
		cfg.joined = strings.Join(v.Groups, ",")
	}
	if len(limits) > 0 {
		cfg.compiled = newBucketConfig(limits, cfg.level, cfg.permanent, cfg.readAt, cfg.tick)
		cfg.compiled.Group = items.group
		counted := uint32(0)
		for i := range from {
			cfg.compiled.Limits[i].Level = string(from[i])
			if v.Limits[i].Counted {
				counted |= 1 << i
			}
		}
		if v.Unlimited { // a call may name any limit
			v.Hidden = nil
		}
		if len(v.Lifted)+len(v.Hidden) > 0 {
			cfg.compiled.Origin = originOf(&v)
		}
		if counted != 0 || items.given != nil {
			cfg.compiled.ChangeOrigin(func(o *plan.Origin) { o.Counted, o.Given = counted, items.given != nil })
		}
	}
	return cfg.withRaises(&v, cfg.readAt)
}

// originOf is the origin of limits that a verdict puts in force.
func originOf(v *config.Verdict) *plan.Origin {
	origin := &plan.Origin{Level: string(v.Level)}
	for _, h := range v.Lifted {
		origin.Lifted = append(origin.Lifted, h.Name)
	}
	for _, h := range v.Hidden {
		origin.Hidden = append(origin.Hidden, plan.Hidden{Name: h.Name, Level: string(h.Level)})
	}
	return origin
}

// verdict is what the items say together, and the limits in force as users write them, with the
// level of each.
func (i *configItems) verdict() (config.Verdict, []Limit, []levels.Level, error) {
	v, err := config.Resolve(i.Items)
	if wrong, ok := errors.AsType[*config.Malformed](err); ok {
		if _, unknown := errors.AsType[*schema.UnknownKind](err); unknown {
			return v, nil, nil, err
		}
		return v, nil, nil, invalid(storedField(wrong.Level), "cannot be read: %v; set them again", wrong.Err)
	}
	limits, from, err := limitsOf(v.Limits)
	return v, limits, from, err
}

// groups are those of the resource, sorted.
func (k *configKind) groups() []string {
	if k.joined == "" {
		return nil
	}
	return strings.Split(k.joined, ",")
}

// policyFor is what the configuration has a call do when the store does not answer: what a level
// says, else Block if the call names money that is enforced; empty for nothing. cfg is made of it,
// or of a limiter's own limits; nil of none.
func (c *resolvedConfig) policyFor(r *request, cfg *plan.Config) UnavailablePolicy {
	if c.onUnavailable != "" {
		return c.onUnavailable
	}
	for _, l := range r.opts.limits {
		if r.amounts[l.Name] > 0 && l.Unit != "" && !l.Shadow {
			return Block
		}
	}
	if cfg == nil || cfg.Money == 0 {
		return ""
	}
	for i, l := range cfg.Limits {
		if r.amounts[l.Name] > 0 && cfg.IsMoney(i) && !cfg.InShadow(l.Name) && cfg.Charges(l.Name) {
			return Block
		}
	}
	return ""
}

func storedField(level levels.Level) string { return "stored limits of level " + string(level) }

// limitsOf are stored limits as users write them, checked, and the level of each.
func limitsOf(stored []config.Limit) ([]Limit, []levels.Level, error) {
	if len(stored) == 0 {
		return nil, nil, nil
	}
	if len(stored) > schema.MaxLimits {
		return nil, nil, invalid("stored limits", "of a level and of those that it extends are %d, %s; a bucket has at most %d: remove some of them", len(stored), listed(stored), schema.MaxLimits)
	}
	limits, from := make([]Limit, len(stored)), make([]levels.Level, len(stored))
	for i, l := range stored {
		field := storedField(l.Level)
		checked, err := checkLimits(field, []Limit{Limit(l.ConfigLimit)})
		if err != nil {
			return nil, nil, err
		}
		limits[i], from[i] = checked[0], l.Level
	}
	return limits, from, nil
}

// listed are the names of limits with their levels.
func listed(stored []config.Limit) string {
	var names []string
	for _, l := range stored {
		names = append(names, l.Name+" of "+string(l.Level))
	}
	return strings.Join(names, ", ")
}

// ResolvedLimits is what the stored configuration says about an entity on a resource, and
// at which level. It is a plain value. As JSON it has the names of its fields in lower
// case (entity_id, policy_level), and leaves out what is empty.
type ResolvedLimits struct {
	// EntityID is the entity that was asked for.
	EntityID string `json:"entity_id"`
	// Resource is the resource that was asked for.
	Resource string `json:"resource"`
	// Limits are the limits in force, sorted by name. They are none if the entity is
	// Unlimited and not Counted, or if no level has any (Level is empty): then a limiter's own
	// Options.Limits apply.
	Limits []Limit `json:"limits,omitempty"`
	// From are the levels that the Limits come from, in their order.
	From []levels.Level `json:"from,omitempty"`
	// Level is the most specific level that has limits, or is unlimited. Less specific ones count
	// too where it extends them: see From. It is empty if no level has limits or is unlimited.
	Level levels.Level `json:"level,omitempty"`
	// Plan is the plan that the entity's record names; empty for none.
	Plan string `json:"plan,omitempty"`
	// Unlimited means that the level that won lifts all limits, also those of a
	// limiter's Options.
	Unlimited bool `json:"unlimited,omitempty"`
	// Counted is the most specific level that is unlimited and counted
	// (admin.LimitConfig.Counted): limits of less specific levels are in shadow. Empty for none.
	Counted levels.Level `json:"counted,omitempty"`
	// Blocked is the most specific level that admits nothing, whichever level won; empty
	// for none. A parent that counts and that one of its own levels or its plan blocks, blocks
	// the entity, too: ask for ParentID.
	Blocked levels.Level `json:"blocked,omitempty"`
	// Admitted is the level that lifts a block with exceptions (admin.LimitConfig.Admit); empty for
	// none. Another block may hold all the same: see Blocked.
	Admitted levels.Level `json:"admitted,omitempty"`
	// OnUnavailable is what calls do when DynamoDB does not answer, as PolicyLevel, the
	// most specific level that has a policy, says. Both are empty if none has: then it
	// is the parent's, if that counts, or Options.OnUnavailable.
	OnUnavailable UnavailablePolicy `json:"on_unavailable,omitempty"`
	// PolicyLevel is where OnUnavailable came from; empty for none.
	PolicyLevel levels.Level `json:"policy_level,omitempty"`
	// Hidden are the limits that less specific levels have and that are not in force, because a
	// more specific level replaces them; in the order of their levels and names.
	Hidden []HiddenLimit `json:"hidden,omitempty"`
	// Lifted are the limits that a level takes away by name, with that level, in the order of
	// their names.
	Lifted []HiddenLimit `json:"lifted,omitempty"`
	// ParentID is the entity's parent, empty for none. Nothing is inherited from it. Unless
	// Detached, calls charge the parent's buckets too, by the levels made for the parent or for its
	// plan.
	ParentID string `json:"parent_id,omitempty"`
	// Cascade means that calls charge the parent by all its levels, also by those of resource and
	// system.
	Cascade bool `json:"cascade,omitempty"`
	// Detached means that the parent is not charged.
	Detached bool `json:"detached,omitempty"`
	// Raised are the limits that are raised until an instant, in the order of their names. Limits have
	// them as they are raised.
	Raised []RaisedLimit `json:"raised,omitempty"`
	// Groups are the groups of the resource (admin.LimitConfig.Groups) with what the records
	// made for each say, in the order of their names. Calls charge their buckets too.
	Groups []ResolvedLimits `json:"groups,omitempty"`
}

// HiddenLimit is a limit that is not in force because of a more specific level.
type HiddenLimit struct {
	// Name is the limit's.
	Name string `json:"name"`
	// Level is the most specific level that has it or, of one that is lifted, that lifts it.
	Level levels.Level `json:"level"`
}
