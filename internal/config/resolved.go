package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// Resolved is the configuration of an entity on a resource. It is never changed once built.
type Resolved struct {
	*Kind
	// ParentID is the parent in the entity's record; "" without one.
	ParentID string
	// ReadAt and Tick were taken before the read: DynamoDB's time in milliseconds, and Clock.Tick.
	ReadAt, Tick int64
	// Limits is the bucket's configuration. It is nil without stored limits. See Fallback.LimitsOf.
	Limits *plan.Config

	// elder is the age of the oldest item at the start of the read: its source is shared with other entities.
	elder time.Duration

	// fallback is made from the limits of a limiter, for an entity without stored ones.
	fallback atomic.Pointer[compiledFallback]
	// asParent is the configuration for calls of the entity's children. It is nil until it is needed.
	asParent atomic.Pointer[plan.Config]
	// seldom has the rare parts. It may be nil.
	seldom *seldom
}

// RecordReadAt returns the time before the read of the entity's record, in Unix ms by the clock of ReadAt.
func (c *Resolved) RecordReadAt() int64 { return c.ReadAt + c.elder.Milliseconds() }

// HasSameContent reports whether two configurations without raises have the same content, apart from the times
// of their reads. It is false for configurations with rare parts: raises, or a plan that calls give.
func (c *Resolved) HasSameContent(o *Resolved) bool {
	if c == o {
		return true
	}
	if c.Kind != o.Kind || c.ParentID != o.ParentID || c.seldom != nil || o.seldom != nil || (c.Limits == nil) != (o.Limits == nil) {
		return false
	}
	if c.Limits == nil {
		return true
	}
	a, b := *c.Limits, *o.Limits
	a.ReadAt, a.Tick = b.ReadAt, b.Tick
	return reflect.DeepEqual(&a, &b)
}

// seldom has the rare parts of a configuration.
type seldom struct {
	// after is made from the same items, for the time after the first end of a raise. It is nil without a
	// raise.
	after *Resolved
	// given are the items of the plan that calls give. It is nil without such a plan, and if the record names
	// a plan.
	given *planItems
}

// HasGivenPlan reports whether calls give the plan, because the entity's record names none.
func (c *Resolved) HasGivenPlan() bool { return c.givenPlan() != nil }

// givenPlan returns the items of the plan that calls give, or nil.
func (c *Resolved) givenPlan() *planItems {
	if c.seldom == nil {
		return nil
	}
	return c.seldom.given
}

// storedItems are the items from which a configuration is resolved. An item that does not exist is nil.
type storedItems struct {
	Items
	// record is the entity's record, and recorded means that it exists.
	record   schema.EntityRecord
	recorded bool
	// group means that they are of a group of resources. Only records made for the group count then, because
	// any other would cap the sum of all resources at the limits of one.
	group bool
	// given are the items of the plan, if the call gives it.
	given *planItems
	// readAt and tick were taken before the first of them was read.
	readAt, tick int64
	// elder is the age of the oldest of them at the start of the read.
	elder time.Duration
	// mixed means that some of them are from memory.
	mixed bool
}

// planItems are the items of a plan for a resource and for every resource. If a new read finds them
// unchanged, the old value stays, and with it the configurations made from it.
type planItems struct {
	plan     string
	own, all schema.Item
}

// resolve makes a configuration, with its bucket's configuration and raises, from the items of its sources. It
// fails as resolveSources does if an item on the walk cannot be decoded or a limit is bad, because then the
// limits are unknown.
func (s *kinds) resolve(items *storedItems) (*Resolved, error) {
	v, err := items.resolveSources()
	if err != nil {
		return nil, err
	}
	record := items.record
	if items.given != nil {
		record.Plan = items.given.plan
	}
	has := items.recorded && !record.Deleting
	cfg := &Resolved{
		ParentID: record.ParentID, ReadAt: items.readAt, Tick: items.tick, elder: items.elder,
		Kind: s.shareKind(answers{
			Source: v.Source, Blocked: v.Blocked, Plan: record.Plan, OnUnavailable: v.Policy, SystemPolicy: v.SystemPolicy,
			Permanent: slices.ContainsFunc(v.Limits, func(l Limit) bool { return l.Source.OfEntity() }),
			Unlimited: v.Unlimited, Counted: v.Counted != "",
			Cascade: record.Cascade, Detached: record.Detached, SaysParent: !record.Deleting && (record.ParentID != "" || record.Detached),
			Record: has, Recorded: has || items.Entity != nil || items.EntityDefault != nil, Group: items.group,
		}, v.Groups),
	}
	if items.given != nil {
		cfg.seldom = &seldom{given: items.given}
	}
	if len(v.Limits) == 0 {
		return cfg, nil
	}
	cfg.Limits = v.compileLimits(cfg, items.given != nil)
	if len(v.Raises) > 0 {
		cfg = cfg.withRaises(&v, cfg.ReadAt)
	}
	return cfg, nil
}

// compileLimits returns the configuration of the bucket from the limits in force. of has its times and marks.
// given means that the call has named the plan. It clears v.Hidden if v is unlimited.
func (v *Verdict) compileLimits(of *Resolved, given bool) *plan.Config {
	c := Compile(storedOf(v.Limits), v.Source, of.Permanent, of.ReadAt, of.Tick)
	c.Group = of.Group
	counted := uint32(0)
	for i, l := range v.Limits {
		c.Limits[i].Source = string(l.Source)
		counted |= maskOf(l.Counted, i)
	}
	if v.Unlimited { // a call may name any limit
		v.Hidden = nil
	}
	if len(v.Lifted)+len(v.Hidden) > 0 {
		c.Origin = v.newOrigin(c.From().Alerts)
	}
	if counted != 0 || given {
		c.ChangeOrigin(func(o *plan.Origin) { o.Counted, o.Given = counted, given })
	}
	return c
}

// newOrigin returns the origin of a bucket's limits: the source that won, their alerts, and the names of lifted
// and hidden limits.
func (v *Verdict) newOrigin(alerts []string) *plan.Origin {
	origin := &plan.Origin{Source: string(v.Source), Alerts: alerts}
	for _, h := range v.Lifted {
		origin.Lifted = append(origin.Lifted, h.Name)
	}
	for _, h := range v.Hidden {
		origin.Hidden = append(origin.Hidden, plan.Hidden{Name: h.Name, Source: string(h.Source)})
	}
	return origin
}

// storedOf returns the limits in their stored form, without their sources.
func storedOf(limits []Limit) []schema.ConfigLimit {
	stored := make([]schema.ConfigLimit, len(limits))
	for i, l := range limits {
		stored[i] = l.ConfigLimit
	}
	return stored
}

// resolveSources applies the sources, fills in the defaults of the limits in force, and checks these; a group
// gets no groups. It returns an *Invalid for a bad limit or an unreadable source, which it names, and for more
// than schema.MaxLimits limits. A kind of limit unknown to this version is a *Malformed.
func (i *storedItems) resolveSources() (Verdict, error) {
	v, err := Resolve(i.Items)
	if i.group { // groups are not transitive
		v.Groups = nil
	}
	if wrong, ok := errors.AsType[*Malformed](err); ok {
		if _, unknown := errors.AsType[*schema.UnknownKind](err); unknown {
			return v, err
		}
		return v, &Invalid{Field: StoredField(wrong.Source), Reason: fmt.Sprintf("cannot be read: %v; set them again", wrong.Err)}
	}
	if len(v.Limits) > schema.MaxLimits {
		var names []string
		for _, l := range v.Limits {
			names = append(names, l.Name+" of "+string(l.Source))
		}
		return v, &Invalid{Field: "stored limits", Reason: fmt.Sprintf("of a source and of those that it extends are %d, %s; a bucket has at most %d: remove some of them", len(v.Limits), strings.Join(names, ", "), schema.MaxLimits)}
	}
	for k := range v.Limits {
		l := &v.Limits[k]
		checked, at, reason := schema.CheckLimits([]schema.ConfigLimit{l.ConfigLimit})
		if reason != "" {
			return v, &Invalid{Field: StoredField(l.Source) + at, Reason: reason}
		}
		l.ConfigLimit = checked[0]
	}
	return v, nil
}

// parentConfig returns the bucket's configuration for calls of its children that charge only the limits made
// for the parent or its plan. It marks the other limits as uncharged, and is nil if all are. It is made once,
// and cached in c.
func (c *Resolved) parentConfig() *plan.Config {
	known := c.asParent.Load()
	if known == nil {
		known = &plan.Config{Parent: true}
		if c.Limits != nil {
			*known = *c.Limits
			known.Parent = true
			if c.seldom != nil && c.seldom.after != nil {
				after := c.seldom.after
				known.ChangeOrigin(func(o *plan.Origin) {
					o.Phase = &plan.Phase{Since: o.Phase.Since, Until: o.Phase.Until, After: after.parentConfig()}
				})
			}
		}
		for i := range known.Limits {
			if !sources.Source(known.Limits[i].Source).IsOwn() {
				known.Uncharged |= 1 << i
			}
		}
		c.asParent.Store(known)
	}
	if known.Uncharged == 1<<len(known.Limits)-1 {
		return nil
	}
	return known
}

// Kind is the part of a configuration that many have in common. The configurations of one Cache share it,
// which saves memory. It is never changed.
type Kind struct {
	answers
	// Groups are the groups of the resource, sorted; empty for a group.
	Groups []string
}

// answers are the comparable parts of a Kind.
type answers struct {
	// Source is the source that won: the one of the limits, or the unlimited one; "" for neither.
	Source sources.Source
	// Blocked is the source that blocks calls; "" if they are not blocked.
	Blocked sources.Source
	// Plan is the plan that the entity's record names, or that the call gives; "" without a plan.
	Plan string
	// OnUnavailable is the policy of the most specific source that has one, and SystemPolicy the system's own;
	// "" for no policy.
	OnUnavailable, SystemPolicy string
	// Permanent means that some limits are the entity's own, so that its bucket has no ttl.
	Permanent bool
	// Unlimited means that the source that won lifts all limits, including those of Options. Counted means
	// that a source is unlimited, while less specific limits, or else those of Options, count its calls.
	Unlimited, Counted bool
	// Cascade and Detached are those of the entity's record. SaysParent means that the record decides about a
	// parent. A record in deletion does not.
	Cascade, Detached, SaysParent bool
	// Record means that the entity has a record that is not in deletion. Recorded means that it has such a
	// record, or a source of its own for the resource or for all resources.
	Record, Recorded bool
	// Group means that the configuration is of a group of resources.
	Group bool
	// groups are Groups, with commas between.
	groups string
}

// mostKinds bounds the number of known kinds.
const mostKinds = 1000

// kinds are the kinds of the configurations of a Cache. The zero value is ready.
type kinds struct {
	mu    sync.Mutex
	known map[answers]*Kind
}

// shareKind returns one Kind for all configurations with the same marks and groups, so that thousands of them
// share its memory. It makes a new one at the first use, and forgets all at 1,000.
func (s *kinds) shareKind(a answers, groups []string) *Kind {
	a.groups = strings.Join(groups, ",")
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.known[a]; one != nil {
		return one
	}
	if s.known == nil || len(s.known) == mostKinds { // those in use live on with their configurations
		s.known = map[answers]*Kind{}
	}
	one := &Kind{a, groups}
	s.known[a] = one
	return one
}

// Fallback is the limits of a limiter (Options.Limits). The bucket configuration made from them is cached
// with the resolved configuration of an entity that has no limits of its own. Nil is a limiter without limits
// of its own.
type Fallback struct{ compiled plan.Config }

// NewFallback makes a Fallback from the limiter's own limits (Options.Limits), as schema.CheckLimits returned
// them; nil for an empty list.
func NewFallback(limits []schema.ConfigLimit) *Fallback {
	if len(limits) == 0 {
		return nil
	}
	return &Fallback{compiled: *Compile(limits, sources.Options, false, 0, 0)}
}

// AsReadAt returns the limiter's own limits as the configuration of a bucket, as if read at readAt (Unix ms).
// tick orders that read among the reads of this process.
func (f *Fallback) AsReadAt(readAt, tick int64) *plan.Config {
	c := f.compiled
	c.ReadAt, c.Tick = readAt, tick
	return &c
}

// LimitsOf returns the configuration of a bucket for a call; nil if nothing limits it. Without stored limits it
// has the limiter's own, except on a group, and is cached in r. If parent is true, the call charges the bucket
// as a parent's, and only with the limits made for the parent or its plan.
func (f *Fallback) LimitsOf(r *Resolved, parent bool) *plan.Config {
	if parent {
		return r.parentConfig()
	}
	if r.Limits != nil {
		return r.Limits
	}
	if f == nil || r.Unlimited && !r.Counted || r.Group {
		return nil
	}
	if known := r.fallback.Load(); known != nil && known.from == f {
		return &known.cfg
	}
	c := &compiledFallback{from: f, cfg: *f.AsReadAt(r.ReadAt, r.Tick)}
	if r.Counted {
		c.cfg.Shadow = 1<<len(c.cfg.Limits) - 1
		c.cfg.ChangeOrigin(func(o *plan.Origin) { o.Counted = c.cfg.Shadow })
	}
	if r.seldom != nil && r.seldom.given != nil {
		c.cfg.ChangeOrigin(func(o *plan.Origin) { o.Given = true })
	}
	r.fallback.Store(c)
	return &c.cfg
}

// compiledFallback is a bucket configuration made from a limiter's own limits.
type compiledFallback struct {
	from *Fallback
	cfg  plan.Config
}
