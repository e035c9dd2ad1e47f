package dynalimit

import (
	"cmp"
	"context"
	"errors"
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
	// deepOnce logs the first chain of parents that is too deep.
	deepOnce sync.Once
}

// configStore reads the stored configuration, through the repository's cache.
type configStore interface {
	config(ctx context.Context, entity, resource string, until time.Time) (*resolvedConfig, schema.Item, bool, error)
}

// find resolves the entity and, if it cascades, its parents into a cascade, which it
// adds to c. It leaves out levels that nothing limits; of a level in the cascade nothing
// may be asked. p bounds the wait for reads. A nil p is that of a lease that is out: its
// reads last as long as ctx, and it goes on where new calls are blocked.
func (rs *routes) find(ctx context.Context, r *request, c cascade, p *patience) (cascade, UnavailablePolicy, error) {
	policy := r.opts.onUnavailable
	if err := rs.repo.compatible(r.resource, "WithLimits", r.opts.limits); err != nil {
		return c, policy, err
	}
	var visited [maxDepth]string
	for depth, id := 0, r.entity; id != ""; depth++ {
		if depth == maxDepth {
			rs.warnTooDeep(ctx, r.entity, id)
			break
		}
		if slices.Contains(visited[:depth], id) {
			return c, policy, invalid("entity", "%s is its own ancestor; correct the parents", id)
		}
		visited[depth] = id
		at, resolved, err := rs.resolve(ctx, id, r.resource, p)
		if err != nil {
			if p != nil && unavailable(err) { // a block that is known stays in force, however old
				if block := rs.lastBlock(id, r.resource); block != nil {
					err = block
				}
			}
			return c, cmp.Or(policy, rs.onUnavailable), err
		}
		policy = cmp.Or(policy, resolved.onUnavailable)
		if resolved.blocked != "" && p != nil {
			return c, cmp.Or(policy, rs.onUnavailable), blockedBy(id, r.resource, resolved)
		}
		cfg, err := rs.levelConfig(r, id, resolved)
		if err != nil {
			return c, policy, err
		}
		if cfg != nil {
			c = c.with(at, cfg, r.amounts)
		}
		c.unlimited = c.unlimited || resolved.unlimited
		id = resolved.charged()
	}
	c.passOn(func(level int, limit string) bool { return hasLimit(c.rungs[level+1:], limit) })
	return c, cmp.Or(policy, rs.onUnavailable), rs.fallback.checkKnown(r, &c)
}

// resolve returns the lane of a bucket and its stored configuration. If the bucket was
// read with the configuration, the lane gets its image.
func (rs *routes) resolve(ctx context.Context, entity, resource string, p *patience) (*lane.Lane, *resolvedConfig, error) {
	if p != nil { // a lease that is out goes on
		if err := rs.repo.refused(); err != nil {
			return nil, nil, err
		}
	}
	if resolved := rs.repo.known(entity, resource); resolved != nil && (p == nil || rs.repo.namespace.inactive() == nil) {
		rs.keepSystemPolicy(resolved)
		return rs.lanes.Of(entity, resource), resolved, nil
	}
	var until time.Time
	if p != nil {
		p.begin(ctx)
		until = p.bound()
	}
	asked := rs.lanes.Ask()
	resolved, item, read, err := rs.store.config(ctx, entity, resource, until)
	if p != nil {
		err = rs.repo.refusedBy(ctx, rs.silentRead(err, configKey{entity, resource}, p))
	}
	if err != nil {
		return nil, nil, err
	}
	at := rs.lanes.Of(entity, resource)
	if read {
		image, err := rs.repo.decodeBucket(item, rs.lanes.IDs.Slot)
		if err != nil {
			return nil, nil, err
		}
		at.Seed(image, asked)
	}
	rs.keepSystemPolicy(resolved)
	return at, resolved, nil
}

// refuse is why a call need not look anything up: its context has ended, or the table does
// not answer, and by what was last read, however old, the call is to fail then. It asks
// nobody, and nothing is made that would only be thrown away.
func (rs *routes) refuse(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil || !rs.table.Open() {
		return err
	}
	if inactive := rs.repo.namespace.inactive(); inactive != nil {
		return inactive
	}
	policy, unlimited := r.opts.onUnavailable, len(r.opts.limits) == 0
	id := r.entity
	for depth := 0; id != "" && depth < maxDepth; depth++ {
		last := rs.repo.configs.last(configKey{id, r.resource})
		if last == nil {
			unlimited = false
			break
		}
		policy, unlimited = cmp.Or(policy, last.onUnavailable), unlimited && last.unlimited
		id = last.charged()
	}
	if cmp.Or(policy, rs.knownPolicy()).admits() || unlimited || rs.lanes.Horizon != nil {
		return nil
	}
	return rs.table.away()
}

// lastBlock is the block of a level, or of a parent that it charges, as last read, however
// old; nil for none.
func (rs *routes) lastBlock(entity, resource string) error {
	for depth := 0; entity != "" && depth < maxDepth; depth++ {
		last := rs.repo.configs.last(configKey{entity, resource})
		switch {
		case last == nil:
			return nil
		case last.blocked != "":
			return blockedBy(entity, resource, last)
		}
		entity = last.charged()
	}
	return nil
}

// blockFor is why a call that waits, or whose lease asks for more, is not to be admitted:
// a level is blocked, or the namespace is inactive. It is nil if nothing says so, or if the
// configuration cannot be read. oldest is when the oldest configuration of its levels was
// read.
func (rs *routes) blockFor(ctx context.Context, r *request) (oldest int64, block error) {
	oldest = math.MaxInt64
	if err := rs.repo.refused(); err != nil {
		return oldest, err
	}
	id := r.entity
	for depth := 0; id != "" && depth < maxDepth; depth++ {
		resolved, _, _, err := rs.store.config(ctx, id, r.resource, time.Time{})
		if inactive := rs.repo.namespace.inactive(); inactive != nil {
			return oldest, inactive
		}
		if err != nil {
			return oldest, rs.lastBlock(id, r.resource) // who reads the limits hears of err
		}
		if oldest = min(oldest, resolved.readAt); resolved.blocked != "" {
			return oldest, blockedBy(id, r.resource, resolved)
		}
		id = resolved.charged()
	}
	return oldest, nil
}

// keepSystemPolicy remembers the system's policy for calls that cannot read it.
func (rs *routes) keepSystemPolicy(resolved *resolvedConfig) {
	if rs.systemPolicy.Load() != &resolved.systemPolicy {
		rs.systemPolicy.Store(&resolved.systemPolicy)
	}
}

// levelConfig is what limits a level of a call; nil for nothing. The level of the call's
// own entity gets the limits of WithLimits, also where it is unlimited.
func (rs *routes) levelConfig(r *request, entity string, resolved *resolvedConfig) (*plan.Config, error) {
	cfg := rs.fallback.compile(resolved)
	if entity == r.entity && len(r.opts.limits) > 0 {
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

// configOf is the configuration of one level of a request; nil if nothing limits it.
func (rs *routes) configOf(ctx context.Context, r *request, entity string) (*plan.Config, error) {
	resolved, _, _, err := rs.store.config(ctx, entity, r.resource, time.Time{})
	if err != nil {
		return nil, err
	}
	return rs.levelConfig(r, entity, resolved)
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
// without any limit known; Local admits by the limiter's own limits, if it has any.
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
func (rs *routes) silentRead(err error, key configKey, p *patience) error {
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

// locate finds the buckets that calls of an entity on a resource charge.
func (rs *routes) locate(ctx context.Context, entity, resource string) ([]lane.Located, error) {
	c, _, err := rs.find(ctx, &request{entity: entity, resource: resource}, cascade{}, nil)
	if err != nil && !isValidation(err) {
		return nil, err
	}
	found := make([]lane.Located, len(c.rungs))
	for i := range c.rungs {
		found[i] = lane.Located{Lane: c.rungs[i].lane, Config: c.rungs[i].cfg}
	}
	return found, nil
}

// warnTooDeep tells the operator, once, that a chain has more levels than are charged.
// The nearest levels are charged. To refuse the call would stop all traffic below
// because of one record far above.
func (rs *routes) warnTooDeep(ctx context.Context, entity, ancestor string) {
	rs.deepOnce.Do(func() {
		rs.log.WarnContext(ctx, "an entity has too many levels of parents; those from the ancestor on are not charged",
			slog.String("entity", entity), slog.String("ancestor", ancestor), slog.Int("levels", maxDepth))
	})
}

// blockedBy is the error of a call that an entity's configuration blocks.
func blockedBy(entity, resource string, c *resolvedConfig) *BlockedError {
	e := &BlockedError{EntityID: entity, Resource: resource, Level: c.blocked}
	if c.blocked.OfPlan() {
		e.Plan = c.plan
	}
	return e
}
