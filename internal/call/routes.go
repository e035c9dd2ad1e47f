package call

import (
	"cmp"
	"context"
	"log/slog"
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
)

// maxDepth bounds the levels of an entity and its parents.
const maxDepth = schema.MaxDepth

// routes lead from an entity and a resource to the buckets of a call: the lane and the cached
// configuration of each. They charge nothing.
type routes struct {
	configs   configs
	namespace *Namespace // nil without a namespace
	// clock is the repository's, and nowMS the limiter's.
	clock *ddb.Clock
	nowMS func() int64
	// store decodes buckets that came with their configuration.
	store    *store.Buckets
	lanes    *lane.Registry
	table    Table
	fallback *config.Fallback
	log      *slog.Logger
	// onUnavailable is the policy for calls if no source has one.
	onUnavailable Policy
	// systemPolicy is the last read policy of the system.
	systemPolicy atomic.Pointer[string]
	// lookups bounds the reads that find no record. strangers is the parent of entities without another
	// one, nil without such a parent.
	lookups   lookups
	strangers *Given
	// deepOnce logs the first chain of parents that is too deep.
	deepOnce sync.Once
	// differOnce logs the first call that gives another parent or plan than a record has.
	differOnce sync.Once
}

// find resolves the entity of a call and the parents that count, and adds their buckets to the call, child
// first: at each entity the bucket of the resource, and those of its groups. It leaves out buckets without
// limits. A found bucket may have no requested amount. It sets the policy of the call. p bounds the wait for
// reads. It is nil for an open lease: then reads last as long as ctx, and blocks for new calls do not apply.
func (rs *routes) find(ctx context.Context, r *Request, c *charged, p *patience) error {
	var visited [maxDepth]string
	given := false // the chain has the parent that the call gives
	for depth, at := 0, r.placeAt(r.Entity, false); at.Entity != ""; depth++ {
		given = given || at.given
		if depth == maxDepth {
			if err := rs.checkDepth(ctx, r, at, given, p); err != nil {
				return err
			}
			break
		}
		if slices.Contains(visited[:depth], at.Entity) {
			return r.refuseCycle(at.Entity, given)
		}
		visited[depth] = at.Entity
		own, err := rs.addEntity(ctx, r, c, at, p)
		if err != nil {
			c.policy = cmp.Or(c.policy, rs.onUnavailable)
			return err
		}
		if depth == 0 && r.Given != nil {
			r.logDifference(ctx, &rs.differOnce, rs.log, own)
		}
		if r.Given == nil && own.ParentID == "" { // nothing names a parent
			break
		}
		at = r.nextPlace(at, own)
	}
	c.policy = cmp.Or(c.policy, rs.onUnavailable)
	if len(c.levels) > 1 {
		c.levels.passOn(c.levels.isCountedAbove)
	}
	if c.whole {
		return nil
	}
	return rs.checkNames(r, c)
}

// addEntity adds the buckets of one entity to a call, and sets the call's policy if it has none yet. It returns
// the entity's own configuration. If the store does not answer a new call, a known block is the error, however
// old.
func (rs *routes) addEntity(ctx context.Context, r *Request, c *charged, at place, p *patience) (*config.Resolved, error) {
	var room [1]route // for most
	found, err := room[:0], error(nil)
	if p != nil && (at.given || rs.lookups.refuse && at.Entity == r.Entity) {
		found, err = rs.recordedBuckets(ctx, r, at, found, p)
	} else {
		found, err = rs.buckets(ctx, r, at, found, p)
	}
	for i := range found {
		if of, cfg := found[i].resolved, found[i].cfg; of.OnUnavailable != "" || len(r.Limits) > 0 || cfg != nil && cfg.Money != 0 {
			c.policy = cmp.Or(c.policy, r.policyAt(of, cfg))
		}
		if found[i].refresh != nil {
			p.refreshes = append(p.refreshes, found[i].refresh)
		}
	}
	for i := range found {
		if err == nil {
			err = rs.addBucket(r, c, &found[i], p != nil)
		}
	}
	if err != nil {
		if p != nil && isUnavailable(err) { // a block that is known stays in force, however old
			err = cmp.Or(rs.lastBlock(r, at), err)
		}
		return nil, err
	}
	return found[0].resolved, nil
}

// addBucket adds a bucket to a call if it has limits, and marks the call as unlimited if the bucket is. It
// fails for a blocked bucket if anew is set: the call is new.
func (rs *routes) addBucket(r *Request, c *charged, at *route, anew bool) (err error) {
	if at.resolved.Blocked != "" && anew {
		if block := r.blockOf(at.Key, at.resolved); block != "" {
			return newBlocked(at.Key, block, at.resolved)
		}
	}
	cfg := at.cfg
	if len(r.Limits) > 0 {
		if cfg, err = rs.levelConfig(r, at.place, at.resolved); err != nil {
			return err
		}
	}
	if cfg != nil {
		c.addLevel(at.lane, cfg, r.Amounts)
		if cfg.Money != 0 && cfg.Group && at.lane.Resource != r.Resource { // its money is counted by model
			c.levels[len(c.levels)-1].model.Name = r.Resource
		}
	}
	c.unlimited = c.unlimited || at.resolved.Unlimited && (!at.parent || at.resolved.Source.IsOwn())
	return nil
}

// checkNames returns the reason of a call that requests limits which no level has; nil if all are known or
// skipped.
func (rs *routes) checkNames(r *Request, c *charged) error {
	if reason := rs.fallback.CheckNames(r.namedLimits(c.levels.namedBuckets(), c.unlimited)); reason != nil {
		return reason
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
	// refresh reads resolved again, because it has expired; nil if it has not.
	refresh *refresh
}

// recordedBuckets returns the buckets of an entity that a call charges, if the entity must have a record. It
// refuses a new call of an entity without one. room is space for the result; p bounds the time of the reads.
func (rs *routes) recordedBuckets(ctx context.Context, r *Request, at place, room []route, p *patience) ([]route, error) {
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

// buckets returns the buckets of an entity that a call charges: of its resource first, and unless that is
// blocked, of its groups. It returns an error if the configuration of one of them cannot be read. It uses room
// if that suffices.
func (rs *routes) buckets(ctx context.Context, r *Request, at place, room []route, p *patience) ([]route, error) {
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

// resolve returns the lane of a bucket and its stored configuration, and reads that if it is not fresh. If the
// read also shows the bucket, the lane gets its image. It fails for new calls in an inactive namespace, and may
// return an expired configuration with a refresh in flight.
func (rs *routes) resolve(ctx context.Context, to place, p *patience) (route, error) {
	if p != nil && rs.namespace != nil { // an open lease goes on
		if err := rs.namespace.refused(); err != nil {
			return route{}, err
		}
	}
	if resolved := rs.configs.Fresh(to.GivenKey); resolved != nil && (p == nil || rs.namespace == nil || rs.namespace.inactive() == nil) {
		if rs.systemPolicy.Load() != &resolved.SystemPolicy {
			rs.keepSystemPolicy(resolved)
		}
		return route{place: to, lane: rs.lanes.Of(to.Entity, to.Resource), resolved: resolved, cfg: rs.fallback.LimitsOf(resolved, to.parent)}, nil
	}
	old := rs.configs.RecentlyExpired(to.GivenKey)
	if old != nil {
		if expired, ok := rs.readBeside(ctx, to, old, p); ok {
			return expired, nil
		}
	}
	return rs.readRoute(ctx, to, old, p)
}

// readRoute reads a configuration that is not fresh, and returns the route with it; a lane without an image
// gets that of the same read. It remembers the system's policy. old is the expired configuration, or nil.
func (rs *routes) readRoute(ctx context.Context, to place, old *config.Resolved, p *patience) (route, error) {
	var until time.Time
	if p != nil {
		p.startClock(ctx)
		until = p.bound()
	}
	asked := rs.lanes.Ask()
	found, err := rs.configs.Load(ctx, config.Ask{GivenKey: to.GivenKey, Last: old}, until)
	if err != nil {
		err = unavailableIfLate(err)
	}
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
	return route{place: to, lane: at, resolved: found.Resolved, cfg: rs.fallback.LimitsOf(found.Resolved, to.parent), read: found.Read}, nil
}

// resolveGroups resolves the other groups of a call's resource. It reads unknown groups at the same
// time, and with them the parent, which is resolved next.
func (rs *routes) resolveGroups(ctx context.Context, r *Request, own route, p *patience) ([]route, error) {
	groups := own.groupPlaces(own.resolved)
	found, errs := make([]route, len(groups)), make([]error, len(groups))
	unread := make([]func(*patience), 0, len(groups)+1)
	for i, group := range groups {
		if rs.configs.Fresh(group.GivenKey) == nil {
			unread = append(unread, func(p *patience) { found[i], errs[i] = rs.resolve(ctx, group, p) })
		} else {
			found[i], errs[i] = rs.resolve(ctx, group, p)
		}
	}
	if parent := r.nextPlace(own.place, own.resolved); len(unread) > 0 && parent.Entity != "" && rs.configs.Fresh(parent.GivenKey) == nil && rs.configs.RecentlyExpired(parent.GivenKey) == nil {
		unread = append(unread, func(p *patience) { _, _ = rs.resolve(ctx, parent, p) })
	}
	readSideBySide(ctx, unread, p)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// readSideBySide makes reads at the same time, each with a copy of a call's patience, and waits for all. It
// starts the call's time for the store; p is nil for a lease.
func readSideBySide(ctx context.Context, reads []func(*patience), p *patience) {
	if len(reads) == 0 {
		return
	}
	if p != nil {
		p.startClock(ctx)
	}
	var all sync.WaitGroup
	for _, read := range reads {
		own := p.ownCopy()
		all.Go(func() { read(own) })
	}
	all.Wait()
}

// levelConfig returns the limits of a bucket for a call; nil if nothing limits the bucket. The bucket of the
// call's own entity and resource gets the limits of WithLimits too, even if it is unlimited.
func (rs *routes) levelConfig(r *Request, at place, resolved *config.Resolved) (*plan.Config, error) {
	cfg := rs.fallback.LimitsOf(resolved, at.parent)
	if len(r.Limits) > 0 && at == r.placeAt(r.Entity, false) {
		return rs.overrideLimits(cfg, resolved, r.Limits)
	}
	return cfg, nil
}

// overrideLimits returns the configuration with the limits of the call put over those of the entity; cfg may be
// nil. It returns a *config.Invalid if they are too many.
func (rs *routes) overrideLimits(cfg *plan.Config, r *config.Resolved, limits []schema.ConfigLimit) (*plan.Config, error) {
	if cfg == nil {
		cfg = &plan.Config{Permanent: r.Permanent}
	}
	out := config.Override(cfg, limits, rs.nowMS(), rs.clock.Tick())
	if len(out.Limits) > schema.MaxLimits {
		return nil, invalid("WithLimits", "makes %d limits, %q, of the %d given and the %d configured; a bucket has at most %d: give fewer, or give them the names of configured limits, which they then replace",
			len(out.Limits), out.Names(), len(limits), len(cfg.Limits), schema.MaxLimits)
	}
	return out, nil
}

// configOf returns the configuration of one bucket of a request, from the cache or a read. cfg is nil if
// nothing limits the bucket, because it is unlimited or because no source has limits.
func (rs *routes) configOf(ctx context.Context, r *Request, at place) (cfg *plan.Config, unlimited bool, err error) {
	found, err := rs.configs.Get(ctx, at.GivenKey)
	if err != nil {
		return nil, false, err
	}
	cfg, err = rs.levelConfig(r, at, found.Resolved)
	return cfg, found.Unlimited, err
}

// locateBuckets finds the buckets that calls of an entity charge on a resource and its groups. An invalid
// configuration or parent is no error: it then returns the buckets found so far.
func (rs *routes) locateBuckets(ctx context.Context, entity, resource string, by lane.Given) ([]lane.Located, error) {
	r, c := Request{Entity: entity, Resource: resource}, charged{}
	if by != (lane.Given{}) {
		r.Given = &Given{Parent: by.Parent, Plan: by.Plan, ByCall: true}
	}
	if err := rs.find(ctx, &r, &c, nil); err != nil && !isRefusal(err) {
		return nil, err
	}
	found := make([]lane.Located, len(c.levels))
	for i := range c.levels {
		found[i] = lane.Located{Lane: c.levels[i].lane, Config: c.levels[i].cfg}
	}
	return found, nil
}
