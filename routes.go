package dynalimit

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/store"
	"github.com/dynalimit/dynalimit/sources"
)

// maxDepth bounds the levels of an entity and its parents.
const maxDepth = schema.MaxDepth

// routes lead from an entity and a resource to the buckets of a call: the lane and the cached
// configuration of each. They charge nothing.
type routes struct {
	configs   configCache
	namespace *namespaceState // nil without a namespace
	// clock is the repository's, and nowMS the limiter's. tick orders reads within the process.
	clock *ddb.Clock
	nowMS func() int64
	tick  func() int64
	// compatible means that limits and resources that zae-limiter cannot read are refused.
	compatible bool
	// store decodes buckets that came with their configuration.
	store    *store.Buckets
	lanes    *lane.Registry
	table    availability
	fallback *config.Fallback
	log      *slog.Logger
	// onUnavailable is the policy for calls if no level has one.
	onUnavailable UnavailablePolicy
	// systemPolicy is the last read policy of the system.
	systemPolicy atomic.Pointer[string]
	// lookups bounds the reads that find no record. strangers is the parent of entities without another
	// one, nil if there is none.
	lookups   lookups
	strangers *hints
	// deepOnce logs the first chain of parents that is too deep.
	deepOnce sync.Once
	// differOnce logs the first call that gives another parent or plan than a record has.
	differOnce sync.Once
}

// find resolves the entity and the parents that count into a cascade, and adds it to c: at each entity
// the bucket of the resource, and those of its groups. It leaves out buckets without limits. A bucket
// in the cascade may have no requested amount. p bounds the wait for reads. It is nil for an open
// lease: then reads last as long as ctx, and blocks for new calls do not apply.
func (rs *routes) find(ctx context.Context, r *request, c cascade, p *patience) (cascade, UnavailablePolicy, error) {
	policy := r.opts.onUnavailable
	if rs.compatible {
		if err := checkCompatible(r.resource, "WithLimits", r.opts.limits); err != nil {
			return c, policy, err
		}
	}
	var visited [maxDepth]string
	given := false // the chain has the parent that the call gives
	for depth, at := 0, r.at(r.entity, false); at.Entity != ""; depth++ {
		given = given || at.given
		if depth == maxDepth {
			if err := rs.tooDeep(ctx, r, at, given, p); err != nil {
				return c, cmp.Or(policy, rs.onUnavailable), err
			}
			break
		}
		if slices.Contains(visited[:depth], at.Entity) {
			return c, policy, r.refuseCycle(at.Entity, given)
		}
		visited[depth] = at.Entity
		var own *config.Resolved
		var err error
		if c, policy, own, err = rs.chargeEntity(ctx, r, at, c, policy, p); err != nil {
			return c, cmp.Or(policy, rs.onUnavailable), err
		}
		if depth == 0 && r.opts.given != nil {
			r.logDifference(ctx, &rs.differOnce, rs.log, own)
		}
		if r.opts.given == nil && own.ParentID == "" { // nothing names a parent
			break
		}
		at = r.nextPlace(at, own)
	}
	if len(c.rungs) > 1 {
		c.passOn(c.above)
	}
	policy = cmp.Or(policy, rs.onUnavailable)
	if len(c.rungs) == 1 && len(c.asked) == len(r.amounts) { // one bucket has all that is asked
		return c, policy, nil
	}
	return c, policy, rs.checkNames(r, &c)
}

// chargeEntity adds the buckets of one entity to a cascade. It returns the entity's own configuration, and
// the first policy of an entity that has one.
func (rs *routes) chargeEntity(ctx context.Context, r *request, at place, c cascade, policy UnavailablePolicy, p *patience) (cascade, UnavailablePolicy, *config.Resolved, error) {
	var room [1]route // for most
	charged, err := room[:0], error(nil)
	if p != nil && (at.given || rs.lookups.refuse && at.Entity == r.entity) {
		charged, err = rs.recorded(ctx, r, at, charged, p)
	} else {
		charged, err = rs.buckets(ctx, r, at, charged, p)
	}
	for i := range charged {
		policy = cmp.Or(policy, r.policyAt(charged[i].resolved, charged[i].cfg))
	}
	if err == nil {
		c, err = rs.charge(c, r, charged, p != nil)
	}
	if err != nil {
		if p != nil && unavailable(err) { // a block that is known stays in force, however old
			err = cmp.Or(rs.lastBlock(r, at), err)
		}
		return c, policy, nil, err
	}
	return c, policy, charged[0].resolved, nil
}

// checkNames refuses amounts of limits that no level has.
func (rs *routes) checkNames(r *request, c *cascade) error {
	in := make([]config.NamedBucket, len(c.rungs))
	for i := range c.rungs {
		in[i] = config.NamedBucket{Entity: c.rungs[i].lane.Entity, Config: c.rungs[i].cfg}
	}
	if reason := rs.fallback.CheckNames(r.named(in, c.unlimited)); reason != nil {
		return refusedBy(reason)
	}
	return nil
}

// route is the lane of a bucket and its stored configuration.
type route struct {
	place
	lane     *lane.Lane
	resolved *config.Resolved
	// cfg is the limits made from resolved; nil if there are no limits.
	cfg  *plan.Config
	read bool // by this call
}

// recorded returns the buckets of an entity that must have a record, as buckets does. It refuses new
// calls at an entity without one.
func (rs *routes) recorded(ctx context.Context, r *request, at place, room []route, p *patience) ([]route, error) {
	if !at.given {
		if err := rs.checkUnread(at); err != nil {
			return nil, err
		}
	}
	buckets, err := rs.buckets(ctx, r, at, room, p)
	if err != nil {
		return buckets, err
	}
	return rs.checkRecord(ctx, r, buckets, p)
}

// buckets returns the buckets of an entity that a call charges: of its resource first, and unless that
// is blocked, of its groups. It uses room if that suffices.
func (rs *routes) buckets(ctx context.Context, r *request, at place, room []route, p *patience) ([]route, error) {
	own, err := rs.resolve(ctx, at, p)
	if err != nil {
		return nil, err
	}
	if room = append(room, own); len(own.resolved.Groups) == 0 || p != nil && r.blockOf(at.Key, own.resolved) != "" {
		return room, nil
	}
	groups, err := rs.resolveGroups(ctx, r, own, p)
	return append(room, groups...), err
}

// charge adds an entity's buckets with limits to a cascade. It fails for a blocked one, if anew is set:
// the call is new.
func (rs *routes) charge(c cascade, r *request, buckets []route, anew bool) (cascade, error) {
	for i := range buckets {
		at := &buckets[i]
		if at.resolved.Blocked != "" && anew {
			if block := r.blockOf(at.Key, at.resolved); block != "" {
				return c, blockedBy(at.Key, block, at.resolved)
			}
		}
		cfg := at.cfg
		if len(r.opts.limits) > 0 {
			var err error
			if cfg, err = rs.levelConfig(r, at.place, at.resolved); err != nil {
				return c, err
			}
		}
		if cfg != nil {
			c = c.with(at.lane, cfg, r.amounts)
		}
		c.unlimited = c.unlimited || at.resolved.Unlimited && (!at.parent || at.resolved.Source.IsOwn())
	}
	return c, nil
}

// resolve returns the lane of a bucket and its stored configuration. If the bucket was
// read with the configuration, the lane gets its image.
func (rs *routes) resolve(ctx context.Context, to place, p *patience) (route, error) {
	if p != nil && rs.namespace != nil { // an open lease goes on
		if err := rs.namespace.refused(); err != nil {
			return route{}, err
		}
	}
	if resolved := rs.configs.Fresh(to.GivenKey); resolved != nil && (p == nil || rs.namespace == nil || rs.namespace.inactive() == nil) {
		rs.keepSystemPolicy(resolved)
		return route{place: to, lane: rs.lanes.Of(to.Entity, to.Resource), resolved: resolved, cfg: rs.fallback.LimitsOf(resolved, to.parent)}, nil
	}
	return rs.read(ctx, to, p)
}

// read resolves a configuration that is not fresh.
func (rs *routes) read(ctx context.Context, to place, p *patience) (route, error) {
	var until time.Time
	if p != nil {
		p.begin(ctx)
		until = p.bound()
	}
	asked := rs.lanes.Ask()
	found, err := rs.configs.Load(ctx, to.GivenKey, until)
	if p != nil && (err != nil || rs.namespace != nil) {
		err = rs.readError(ctx, err, to.GivenKey, p)
	}
	if err != nil {
		return route{}, err
	}
	at := rs.lanes.Of(to.Entity, to.Resource)
	if found.Read {
		image, err := rs.store.Decode(found.Bucket, nil, rs.lanes.IDs.Slot)
		if err != nil {
			return route{}, err
		}
		at.Memory.Seed(image, asked)
	}
	rs.keepSystemPolicy(found.Resolved)
	return route{to, at, found.Resolved, rs.fallback.LimitsOf(found.Resolved, to.parent), found.Read}, nil
}

// refuse returns the error of a call that must fail while the table does not answer, by the last read
// configuration, however old; nil if the call may go on. It does no I/O and allocates nothing that a
// refusal would throw away.
func (rs *routes) refuse(r *request) error {
	if rs.namespace != nil {
		if inactive := rs.namespace.inactive(); inactive != nil {
			return inactive
		}
	}
	policy, unlimited := r.opts.onUnavailable, len(r.opts.limits) == 0
	for at, last := range rs.last(r, r.at(r.entity, false)) {
		if last == nil {
			unlimited = false
			continue
		}
		cfg := rs.fallback.LimitsOf(last, at.parent)
		policy = cmp.Or(policy, r.policyAt(last, cfg))
		unlimited = unlimited && (last.Unlimited || (last.Group || at.parent) && cfg == nil || cfg != nil && cfg.OnlyCounts(amountsAt(cfg, r.amounts)))
	}
	if cmp.Or(policy, rs.knownPolicy()).admits() || unlimited || rs.lanes.Horizon != nil {
		return nil
	}
	return rs.table.away()
}

// last yields the places that a call charges from an entity upwards, with their last read
// configurations, however old. The configuration is nil if it is not cached. Then its groups and parent
// are unknown and do not follow.
func (rs *routes) last(r *request, at place) iter.Seq2[place, *config.Resolved] {
	return func(yield func(place, *config.Resolved) bool) {
		for depth := 0; at.Entity != "" && depth < maxDepth; depth++ {
			own := rs.configs.Last(at.GivenKey)
			if !yield(at, own) || own == nil {
				return
			}
			for _, group := range at.beside(own) {
				if !yield(group, rs.configs.Last(group.GivenKey)) {
					return
				}
			}
			at = r.nextPlace(at, own)
		}
	}
}

// lastBlock returns the error of a block from an entity upwards, by the last read configurations,
// however old; nil if there is no block.
func (rs *routes) lastBlock(r *request, from place) error {
	for at, last := range rs.last(r, from) {
		if last == nil {
			continue
		}
		if block := r.blockOf(at.Key, last); block != "" {
			return blockedBy(at.Key, block, last)
		}
	}
	return nil
}

// blockFor returns the reason not to admit a waiting call, or a lease that asks for more: a level is
// blocked, or the namespace is inactive. block is nil without such a reason, and if the configuration
// cannot be read. oldest is the read time of the oldest configuration. gone means that the call no
// longer charges the bucket of at.
func (rs *routes) blockFor(ctx context.Context, r *request, at config.Key) (oldest int64, gone bool, block error) {
	oldest = math.MaxInt64
	if rs.namespace != nil {
		if err := rs.namespace.refused(); err != nil {
			return oldest, false, err
		}
	}
	charged := false
	from := r.at(r.entity, false)
	for depth := 0; from.Entity != "" && depth < maxDepth; depth++ {
		var own *config.Resolved
		for places := []place{from}; len(places) > 0; places = places[1:] {
			key := places[0].Key
			found, err := rs.configs.Get(ctx, places[0].GivenKey)
			if rs.namespace != nil && rs.namespace.inactive() != nil {
				return oldest, false, rs.namespace.inactive()
			}
			if err != nil {
				return oldest, false, rs.lastBlock(r, from) // the read of the limits returns err
			}
			resolved := found.Resolved
			oldest = min(oldest, resolved.ReadAt)
			if block := r.blockOf(key, resolved); block != "" {
				return oldest, false, blockedBy(key, block, resolved)
			}
			charged = charged || key == at
			if own == nil {
				own = resolved
				places = append(places, from.beside(own)...)
			}
		}
		from = r.nextPlace(from, own)
	}
	return oldest, !charged, nil
}

// keepSystemPolicy remembers the system's policy for calls that cannot read it.
func (rs *routes) keepSystemPolicy(resolved *config.Resolved) {
	if resolved.Group { // it does not say
		return
	}
	if rs.systemPolicy.Load() != &resolved.SystemPolicy {
		rs.systemPolicy.Store(&resolved.SystemPolicy)
	}
}

// levelConfig returns the limits of a bucket for a call; nil if there are none. The bucket of the
// call's own entity and resource gets the limits of WithLimits too, even if it is unlimited.
func (rs *routes) levelConfig(r *request, at place, resolved *config.Resolved) (*plan.Config, error) {
	cfg := rs.fallback.LimitsOf(resolved, at.parent)
	if len(r.opts.limits) > 0 && at == r.at(r.entity, false) {
		return rs.override(cfg, resolved, r.opts.limits)
	}
	return cfg, nil
}

// override puts the limits of the call over those of the entity. cfg may be nil.
func (rs *routes) override(cfg *plan.Config, r *config.Resolved, limits []Limit) (*plan.Config, error) {
	if cfg == nil {
		cfg = &plan.Config{Permanent: r.Permanent}
	}
	out := config.Override(cfg, storedLimits(limits), rs.nowMS(), rs.tick())
	if len(out.Limits) > schema.MaxLimits {
		return nil, invalid("WithLimits", "makes %d limits, %q, of the %d given and the %d configured; a bucket has at most %d: give fewer, or name them as the configured ones are named, which they then replace",
			len(out.Limits), out.Names(), len(limits), len(cfg.Limits), schema.MaxLimits)
	}
	return out, nil
}

// configOf returns the configuration of one bucket of a request; nil if nothing limits it, because it
// is unlimited or because no level has limits.
func (rs *routes) configOf(ctx context.Context, r *request, at place) (cfg *plan.Config, unlimited bool, err error) {
	found, err := rs.configs.Get(ctx, at.GivenKey)
	if err != nil {
		return nil, false, err
	}
	cfg, err = rs.levelConfig(r, at, found.Resolved)
	return cfg, found.Unlimited, err
}

// knownPolicy returns the policy for calls without one: the system's as last read, or the limiter's if
// the system has no policy.
func (rs *routes) knownPolicy() UnavailablePolicy {
	if p := rs.systemPolicy.Load(); p != nil && *p != "" {
		return UnavailablePolicy(*p)
	}
	return rs.onUnavailable
}

// unconfigured decides a call whose configuration could not be read. Allow admits it without limits.
// Local admits by the limiter's own limits, if it has any, without parents and groups.
func (rs *routes) unconfigured(r *request, c cascade, policy UnavailablePolicy, err error) (cascade, error) {
	c.rungs, c.asked, c.unlimited = c.rungs[:0], c.asked[:0], false
	switch {
	case !leftToPolicy(err):
		err = askedAgain(err, 0)
	case policy == Allow:
		return c, nil
	case policy == Local && rs.fallback != nil:
		cfg := rs.fallback.At(rs.nowMS(), rs.tick())
		if len(r.opts.limits) > 0 {
			cfg = config.Override(cfg, storedLimits(r.opts.limits), rs.nowMS(), rs.tick())
		}
		c = c.with(rs.lanes.Of(r.entity, r.resource), cfg, r.amounts)
		return c, rs.checkNames(r, &c)
	}
	return c, err
}

// readError returns the error of a call after the read of its configuration: that of silentRead or of
// the namespace, nil if neither fails.
func (rs *routes) readError(ctx context.Context, err error, key config.GivenKey, p *patience) error {
	if err != nil {
		err = rs.silentRead(err, key, p)
	}
	if rs.namespace != nil {
		err = rs.namespace.refusedBy(ctx, err)
	}
	return err
}

// silentRead marks the error of a read of the configuration as silence if nothing was answered since
// the call began. If the call joined a read in flight, it must be silent since the start of that read
// too. A throttled read may just wait for its retry.
func (rs *routes) silentRead(err error, key config.GivenKey, p *patience) error {
	if !errors.Is(err, errOutOfTime) {
		return err
	}
	since := p.began
	if read := rs.configs.ReadSince(key); !read.IsZero() && read.Before(since) {
		since = read
	}
	if rs.table.HeardSince(since) {
		return err
	}
	return &UnavailableError{Op: readConfig, Err: silentCause{errOutOfTime}, RetryAfter: rs.table.RetryAfter()}
}

// locate finds the buckets that calls of an entity charge on a resource and its groups.
func (rs *routes) locate(ctx context.Context, entity, resource string, by lane.Given) ([]lane.Located, error) {
	r := request{entity: entity, resource: resource}
	if by != (lane.Given{}) {
		r.opts.given = &hints{parent: by.Parent, plan: by.Plan, byCall: true}
	}
	c, _, err := rs.find(ctx, &r, cascade{}, nil)
	if err != nil && !isValidation(err) {
		return nil, err
	}
	found := make([]lane.Located, len(c.rungs))
	for i := range c.rungs {
		found[i] = lane.Located{Lane: c.rungs[i].lane, Config: c.rungs[i].cfg}
	}
	return found, nil
}

// blockedBy returns the error of a call that a source of an entity's configuration blocks.
func blockedBy(key config.Key, level sources.Source, c *config.Resolved) *BlockedError {
	e := &BlockedError{EntityID: key.Entity, Resource: key.Resource, Source: level}
	if level.OfPlan() {
		e.Plan = c.Plan
	}
	return e
}
