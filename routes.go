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

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

// maxDepth bounds the levels of an entity and its parents.
const maxDepth = schema.MaxDepth

// routes lead from an entity and a resource to what their calls charge: the lane of every
// bucket, and what limits it as the repository's cache has it. It charges nothing.
type routes struct {
	repo     *Repository
	store    configStore
	lanes    *lane.Registry
	table    availability
	fallback *fallbackLimits
	nowMS    func() int64
	log      *slog.Logger
	// onUnavailable is the policy where no level has one.
	onUnavailable UnavailablePolicy
	// systemPolicy is the system's own policy as it was last read.
	systemPolicy atomic.Pointer[UnavailablePolicy]
	// lookups bounds the reads that find no record; strangers is the parent of entities for which
	// nothing is given, nil for none.
	lookups   lookups
	strangers *hints
	// deepOnce logs the first chain of parents that is too deep.
	deepOnce sync.Once
	// differOnce logs the first call that gives another parent or plan than a record has.
	differOnce sync.Once
}

// configStore reads the stored configuration, through the repository's cache.
type configStore interface {
	config(ctx context.Context, key givenKey, until time.Time) (*resolvedConfig, schema.Item, bool, error)
}

// find resolves the entity and the parents that count into a cascade, which it
// adds to c: of each the bucket of the resource, and those of its groups. It leaves out
// buckets that nothing limits; of a bucket in the cascade nothing may be asked. p bounds the
// wait for reads. A nil p is that of a lease that is out: its reads last as long as ctx, and it
// goes on where new calls are blocked.
func (rs *routes) find(ctx context.Context, r *request, c cascade, p *patience) (cascade, UnavailablePolicy, error) {
	policy := r.opts.onUnavailable
	if rs.repo.readable {
		if err := rs.repo.compatible(r.resource, "WithLimits", r.opts.limits); err != nil {
			return c, policy, err
		}
	}
	var visited [maxDepth]string
	given := false // the chain has the parent that the call gives
	for depth, at := 0, r.at(r.entity, false); at.entity != ""; depth++ {
		given = given || at.given
		if depth == maxDepth {
			if err := rs.tooDeep(ctx, r, at, given, p); err != nil {
				return c, cmp.Or(policy, rs.onUnavailable), err
			}
			break
		}
		if slices.Contains(visited[:depth], at.entity) {
			return c, policy, r.refuseCycle(at.entity, given)
		}
		visited[depth] = at.entity
		var room [1]route // for most
		charged, err := room[:0], error(nil)
		if p != nil && (at.given || rs.lookups.refuse && at.entity == r.entity) {
			charged, err = rs.recorded(ctx, r, at, charged, p)
		} else {
			charged, err = rs.buckets(ctx, r, at, charged, p)
		}
		for i := range charged {
			policy = cmp.Or(policy, charged[i].resolved.policyFor(r, charged[i].cfg))
		}
		if err == nil {
			c, err = rs.charge(c, r, charged, p != nil)
		}
		if err != nil {
			if p != nil && unavailable(err) { // a block that is known stays in force, however old
				err = cmp.Or(rs.lastBlock(r, at), err)
			}
			return c, cmp.Or(policy, rs.onUnavailable), err
		}
		if depth == 0 && r.opts.given != nil {
			r.logDifference(ctx, &rs.differOnce, rs.log, charged[0].resolved)
		}
		at = r.next(at, charged[0].resolved)
	}
	if len(c.rungs) > 1 {
		c.passOn(c.above)
	}
	policy = cmp.Or(policy, rs.onUnavailable)
	if len(c.rungs) == 1 && len(c.asked) == len(r.amounts) { // one bucket has all that is asked
		return c, policy, nil
	}
	return c, policy, rs.fallback.checkKnown(r, &c)
}

// route is the lane of a bucket and its stored configuration.
type route struct {
	place
	lane     *lane.Lane
	resolved *resolvedConfig
	// cfg is what resolved limits there; nil for nothing.
	cfg  *plan.Config
	read bool // by this call
}

// recorded returns the buckets of an entity, which has to have a record, as buckets does. It refuses new
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

// buckets are those that a call charges of an entity, in room if that is enough: of its resource
// first, and if that is not blocked, of its groups.
func (rs *routes) buckets(ctx context.Context, r *request, at place, room []route, p *patience) ([]route, error) {
	own, err := rs.resolve(ctx, at, p)
	if err != nil {
		return nil, err
	}
	if room = append(room, own); own.resolved.joined == "" || r.blockOf(at.configKey, own.resolved) != "" && p != nil {
		return room, nil
	}
	groups, err := rs.resolveGroups(ctx, r, own, p)
	return append(room, groups...), err
}

// charge adds an entity's buckets to a cascade, those that something limits. It fails for one that is
// blocked, if calls are new.
func (rs *routes) charge(c cascade, r *request, buckets []route, anew bool) (cascade, error) {
	for i := range buckets {
		at := &buckets[i]
		if at.resolved.blocked != "" && anew {
			if block := r.blockOf(at.configKey, at.resolved); block != "" {
				return c, blockedBy(at.configKey, block, at.resolved)
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
		c.unlimited = c.unlimited || at.resolved.unlimited && (!at.parent || at.resolved.level.IsOwn())
	}
	return c, nil
}

// resolve returns the lane of a bucket and its stored configuration. If the bucket was
// read with the configuration, the lane gets its image.
func (rs *routes) resolve(ctx context.Context, to place, p *patience) (route, error) {
	key := to.configKey
	if p != nil { // a lease that is out goes on
		if err := rs.repo.refused(); err != nil {
			return route{}, err
		}
	}
	if resolved := rs.repo.known(to.givenKey); resolved != nil && (p == nil || rs.repo.namespace.inactive() == nil) {
		rs.keepSystemPolicy(resolved)
		return route{place: to, lane: rs.lanes.Of(key.entity, key.resource), resolved: resolved, cfg: rs.fallback.compile(resolved, to.parent)}, nil
	}
	var until time.Time
	if p != nil {
		p.begin(ctx)
		until = p.bound()
	}
	asked := rs.lanes.Ask()
	resolved, item, read, err := rs.store.config(ctx, to.givenKey, until)
	if p != nil {
		err = rs.repo.refusedBy(ctx, rs.silentRead(err, to.givenKey, p))
	}
	if err != nil {
		return route{}, err
	}
	at := rs.lanes.Of(key.entity, key.resource)
	if read {
		image, err := rs.repo.buckets.Decode(item, nil, rs.lanes.IDs.Slot)
		if err != nil {
			return route{}, err
		}
		at.Seed(image, asked)
	}
	rs.keepSystemPolicy(resolved)
	return route{to, at, resolved, rs.fallback.compile(resolved, to.parent), read}, nil
}

// refuse is why a call need not look anything up while the table does not answer: by what was last
// read, however old, the call is to fail then. It asks nobody, and nothing is made that would only
// be thrown away.
func (rs *routes) refuse(r *request) error {
	if inactive := rs.repo.namespace.inactive(); inactive != nil {
		return inactive
	}
	policy, unlimited := r.opts.onUnavailable, len(r.opts.limits) == 0
	for at, last := range rs.last(r, r.at(r.entity, false)) {
		if last == nil {
			unlimited = false
			continue
		}
		cfg := rs.fallback.compile(last, at.parent)
		policy = cmp.Or(policy, last.policyFor(r, cfg))
		unlimited = unlimited && (last.unlimited || (last.group || at.parent) && cfg == nil || cfg != nil && cfg.OnlyCounts(amountsAt(cfg, r.amounts)))
	}
	if cmp.Or(policy, rs.knownPolicy()).admits() || unlimited || rs.lanes.Horizon != nil {
		return nil
	}
	return rs.table.away()
}

// last is all that a call charges from an entity upwards, as last read, however old; nothing is
// resolved of what is not kept, and nothing follows that only its configuration names.
func (rs *routes) last(r *request, at place) iter.Seq2[place, *resolvedConfig] {
	return func(yield func(place, *resolvedConfig) bool) {
		for depth := 0; at.entity != "" && depth < maxDepth; depth++ {
			own := rs.repo.configs.last(at.givenKey)
			if !yield(at, own) || own == nil {
				return
			}
			for _, group := range at.beside(own) {
				if !yield(group, rs.repo.configs.last(group.givenKey)) {
					return
				}
			}
			at = r.next(at, own)
		}
	}
}

// lastBlock is the block of what a call charges from an entity upwards, as last read, however
// old; nil for none.
func (rs *routes) lastBlock(r *request, from place) error {
	for at, last := range rs.last(r, from) {
		if last == nil {
			continue
		}
		if block := r.blockOf(at.configKey, last); block != "" {
			return blockedBy(at.configKey, block, last)
		}
	}
	return nil
}

// blockFor is why a call that waits, or whose lease asks for more, is not to be admitted:
// a level is blocked, or the namespace is inactive. It is nil if nothing says so, or if the
// configuration cannot be read. oldest is when the oldest configuration of its levels was
// read. gone means that the call does not charge the bucket of at any more.
func (rs *routes) blockFor(ctx context.Context, r *request, at configKey) (oldest int64, gone bool, block error) {
	oldest = math.MaxInt64
	if err := rs.repo.refused(); err != nil {
		return oldest, false, err
	}
	charged := false
	from := r.at(r.entity, false)
	for depth := 0; from.entity != "" && depth < maxDepth; depth++ {
		var own *resolvedConfig
		for places := []place{from}; len(places) > 0; places = places[1:] {
			key := places[0].configKey
			resolved, _, _, err := rs.store.config(ctx, places[0].givenKey, time.Time{})
			if inactive := rs.repo.namespace.inactive(); inactive != nil {
				return oldest, false, inactive
			}
			if err != nil {
				return oldest, false, rs.lastBlock(r, from) // who reads the limits hears of err
			}
			oldest = min(oldest, resolved.readAt)
			if block := r.blockOf(key, resolved); block != "" {
				return oldest, false, blockedBy(key, block, resolved)
			}
			charged = charged || key == at
			if own == nil {
				own = resolved
				places = append(places, from.beside(own)...)
			}
		}
		from = r.next(from, own)
	}
	return oldest, !charged, nil
}

// keepSystemPolicy remembers the system's policy for calls that cannot read it.
func (rs *routes) keepSystemPolicy(resolved *resolvedConfig) {
	if resolved.group { // it does not say
		return
	}
	if rs.systemPolicy.Load() != &resolved.systemPolicy {
		rs.systemPolicy.Store(&resolved.systemPolicy)
	}
}

// levelConfig is what limits a bucket of a call; nil for nothing. That of the call's own
// entity and resource gets the limits of WithLimits, also where it is unlimited.
func (rs *routes) levelConfig(r *request, at place, resolved *resolvedConfig) (*plan.Config, error) {
	cfg := rs.fallback.compile(resolved, at.parent)
	if len(r.opts.limits) > 0 && at == r.at(r.entity, false) {
		return rs.override(cfg, resolved, r.opts.limits)
	}
	return cfg, nil
}

// override puts the limits of the call over those of the entity.
func (rs *routes) override(cfg *plan.Config, r *resolvedConfig, limits []Limit) (*plan.Config, error) {
	base := r.limits
	if cfg == nil {
		cfg = &plan.Config{Permanent: r.permanent}
	} else if len(base) == 0 {
		base = rs.fallback.limits
	}
	out := overridden(cfg, base, limits, rs.nowMS(), rs.repo.tick())
	if len(out.Limits) > schema.MaxLimits {
		return nil, invalid("WithLimits", "makes %d limits, %q, of the %d given and the %d configured; a bucket has at most %d: give fewer, or name them as the configured ones are named, which they then replace",
			len(out.Limits), out.Names(), len(limits), len(base), schema.MaxLimits)
	}
	return out, nil
}

// configOf is the configuration of one bucket of a request; nil if nothing limits it, because
// it is unlimited or because no level says anything.
func (rs *routes) configOf(ctx context.Context, r *request, at place) (cfg *plan.Config, unlimited bool, err error) {
	resolved, _, _, err := rs.store.config(ctx, at.givenKey, time.Time{})
	if err != nil {
		return nil, false, err
	}
	cfg, err = rs.levelConfig(r, at, resolved)
	return cfg, resolved.unlimited, err
}

// knownPolicy is the policy for calls that bring none: the system's as last read, or the
// limiter's if the system has none.
func (rs *routes) knownPolicy() UnavailablePolicy {
	if p := rs.systemPolicy.Load(); p != nil && *p != "" {
		return *p
	}
	return rs.onUnavailable
}

// unconfigured decides a call whose configuration could not be read. Allow admits it
// without any limit known; Local admits by the limiter's own limits, if it has any, which
// say nothing of parents and groups.
func (rs *routes) unconfigured(r *request, c cascade, policy UnavailablePolicy, err error) (cascade, error) {
	c.rungs, c.asked, c.unlimited = c.rungs[:0], c.asked[:0], false
	switch {
	case !leftToPolicy(err):
		err = askedAgain(err, 0)
	case policy == Allow:
		return c, nil
	case policy == Local && rs.fallback != nil:
		cfg := newBucketConfig(rs.fallback.limits, levels.Options, false, rs.nowMS(), rs.repo.tick())
		if len(r.opts.limits) > 0 {
			cfg = overridden(cfg, rs.fallback.limits, r.opts.limits, rs.nowMS(), rs.repo.tick())
		}
		c = c.with(rs.lanes.Of(r.entity, r.resource), cfg, r.amounts)
		return c, rs.fallback.checkKnown(r, &c)
	}
	return c, err
}

// silentRead marks the error of a call that left a read of the configuration as silence, if
// nothing was answered meanwhile: since the call began and, if the call joined a read that was
// under way, since that began. What was throttled once may just wait to be sent again.
func (rs *routes) silentRead(err error, key givenKey, p *patience) error {
	if !errors.Is(err, errOutOfTime) {
		return err
	}
	since := p.began
	if read := rs.repo.configs.readSince(key); !read.IsZero() && read.Before(since) {
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

// blockedBy is the error of a call that a level of an entity's configuration blocks.
func blockedBy(key configKey, level levels.Level, c *resolvedConfig) *BlockedError {
	e := &BlockedError{EntityID: key.entity, Resource: key.resource, Level: level}
	if level.OfPlan() {
		e.Plan = c.plan
	}
	return e
}
