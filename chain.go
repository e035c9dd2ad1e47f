package dynalimit

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// maxDepth bounds the levels of an entity and its parents.
const maxDepth = 8

// cascade is what a call charges: the buckets of its entity and, if that cascades, of
// its parents, child first. It is all that a denial from memory needs and lies on the
// caller's stack; a lease is made from it only when it is needed.
type cascade struct {
	rungs []rung
	// asked are the amounts of all rungs, one after the other.
	asked []plan.Signed
}

// rung is one bucket of a cascade, before a lease has been made.
type rung struct {
	lane *lane.Lane
	cfg  *plan.Config
	// from and to are where its amounts lie among the cascade's.
	from, to int
	// served means that the amounts were taken from what the lane debited ahead. shown
	// is the bucket as last seen at now; servedAt is when the amounts were debited, by
	// the lane's clock.
	served   bool
	servedAt int64
	shown    *schema.Image
	now      int64
}

// with is the cascade with one more bucket, and with those of the amounts that its
// configuration has.
func (c cascade) with(at *lane.Lane, cfg *plan.Config, amounts Amounts) cascade {
	from := len(c.asked)
	c.asked = appendAmounts(c.asked, cfg, amounts)
	c.rungs = append(c.rungs, rung{lane: at, cfg: cfg, from: from, to: len(c.asked)})
	return c
}

// askedOf is what is asked of a rung.
func (c *cascade) askedOf(i int) []plan.Signed {
	return c.asked[c.rungs[i].from:c.rungs[i].to:c.rungs[i].to]
}

// levels makes the levels of a lease from the rungs; nil if there are none. It uses room,
// and for what is asked the room asked, if they are large enough.
func (c *cascade) levels(room []level, asked []plan.Signed) []level {
	if len(c.rungs) == 0 {
		return nil
	}
	asked = append(asked, c.asked...) // a copy that keeps the cascade on the stack
	for i := range c.rungs {
		r := &c.rungs[i]
		room = append(room, level{lane: r.lane, cfg: r.cfg, asked: asked[r.from:r.to:r.to], served: r.served, servedAt: r.servedAt})
		if r.served {
			room[i].noteAnswer(lane.Result{Image: r.shown, Now: r.now, Config: r.cfg})
		}
	}
	return room
}

// configs are the configurations of the rungs.
func (c *cascade) configs() []*plan.Config {
	cfgs := make([]*plan.Config, len(c.rungs))
	for i := range c.rungs {
		cfgs[i] = c.rungs[i].cfg
	}
	return cfgs
}

// chain resolves the entity and, if it cascades, its parents into a cascade, which it
// adds to c. It leaves out levels that nothing limits; of a level in the cascade nothing
// may be asked. p bounds the wait for reads; a nil p lets them last as long as ctx.
func (l *RateLimiter) chain(ctx context.Context, r *request, c cascade, p *patience) (cascade, UnavailablePolicy, error) {
	policy := r.opts.onUnavailable
	if err := l.repo.compatible(r.resource, "WithLimits", r.opts.limits); err != nil {
		return c, policy, err
	}
	var visited [maxDepth]string
	for depth, id := 0, r.entity; id != ""; depth++ {
		if depth == maxDepth {
			l.warnTooDeep(ctx, r.entity, id)
			break
		}
		if slices.Contains(visited[:depth], id) {
			return c, policy, invalid("entity", "%s is its own ancestor; correct the parents", id)
		}
		visited[depth] = id
		lane, resolved, err := l.resolve(ctx, id, r.resource, p)
		if err != nil {
			return c, l.policy(policy), err
		}
		policy = cmp.Or(policy, resolved.onUnavailable)
		cfg, err := l.levelConfig(r, id, resolved)
		if err != nil {
			return c, policy, err
		}
		if cfg != nil {
			c = c.with(lane, cfg, r.amounts)
		}
		id = resolved.charged()
	}
	return c, l.policy(policy), c.checkKnown(r)
}

// resolve returns the lane of a bucket and its stored configuration. If the bucket was
// read with the configuration, the lane gets its image.
func (l *RateLimiter) resolve(ctx context.Context, entity, resource string, p *patience) (*lane.Lane, *resolvedConfig, error) {
	if resolved := l.repo.known(entity, resource); resolved != nil {
		l.keepSystemPolicy(resolved)
		return l.lanes.Of(entity, resource), resolved, nil
	}
	asked := l.nowMS()
	resolved, item, read, err := l.store.config(ctx, entity, resource, l.bound(ctx, p))
	if err != nil {
		return nil, nil, err
	}
	at := l.lanes.Of(entity, resource)
	if read {
		image, err := l.store.decodeBucket(item, l.lanes.IDs.Slot)
		if err != nil {
			return nil, nil, err
		}
		at.Seed(image, asked)
	}
	l.keepSystemPolicy(resolved)
	return at, resolved, nil
}

// keepSystemPolicy remembers the system's policy for calls that cannot read it.
func (l *RateLimiter) keepSystemPolicy(resolved *resolvedConfig) {
	if l.systemPolicy.Load() != &resolved.onUnavailable {
		l.systemPolicy.Store(&resolved.onUnavailable)
	}
}

// warnTooDeep tells the operator, once, that a chain has more levels than are charged.
// The nearest levels are charged. To refuse the call would stop all traffic below
// because of one record far above.
func (l *RateLimiter) warnTooDeep(ctx context.Context, entity, ancestor string) {
	l.deepOnce.Do(func() {
		l.opts.Logger.WarnContext(ctx, "an entity has too many levels of parents; those from the ancestor on are not charged",
			slog.String("entity", entity), slog.String("ancestor", ancestor), slog.Int("levels", maxDepth))
	})
}

func (l *RateLimiter) policy(p UnavailablePolicy) UnavailablePolicy {
	if p == "" {
		return l.opts.OnUnavailable
	}
	return p
}

// levelConfig is what limits a level of a call; nil for nothing. The level of the call's
// own entity gets the limits of WithLimits.
func (l *RateLimiter) levelConfig(r *request, entity string, resolved *resolvedConfig) (*plan.Config, error) {
	cfg := l.fallback.compile(resolved)
	if entity == r.entity && len(r.opts.limits) > 0 {
		return l.override(cfg, resolved, r.opts.limits)
	}
	return cfg, nil
}

// override puts the limits of the call over those of the entity.
func (l *RateLimiter) override(cfg *plan.Config, r *resolvedConfig, limits []Limit) (*plan.Config, error) {
	base := r.limits
	if cfg == nil {
		cfg = &plan.Config{Permanent: r.permanent}
	} else if len(base) == 0 {
		base = l.opts.Limits
	}
	out := overridden(cfg, base, limits, l.nowMS(), l.repo.tick())
	if len(out.Limits) > schema.MaxLimits {
		return nil, invalid("WithLimits", "makes %d limits, %q, of the %d given and the %d configured; a bucket has at most %d: give fewer, or name them as the configured ones are named, which they then replace",
			len(out.Limits), out.Names(), len(limits), len(base), schema.MaxLimits)
	}
	return out, nil
}

// checkKnown refuses amounts of limits that no level has: otherwise a misspelt name
// would be admitted for ever.
func (c *cascade) checkKnown(r *request) error {
	if len(c.rungs) == 0 {
		return invalid("limits", "none are configured for entity %q on resource %q at any level; set some with Repository.SetSystemLimits, SetResourceLimits or SetEntityLimits, with Options.Limits or with WithLimits", r.entity, r.resource)
	}
	if len(c.rungs) == 1 && len(c.asked) == len(r.amounts) {
		return nil
	}
	for name := range r.amounts {
		if !c.has(name) {
			return r.unknownLimit(name, c.configs())
		}
	}
	return nil
}

// has reports whether any rung has a limit.
func (c *cascade) has(name string) bool {
	for i := range c.rungs {
		if c.rungs[i].cfg.Index(name) >= 0 {
			return true
		}
	}
	return false
}

// unknownLimit is the error for a limit that no level has. It names the limits there
// are, and the list that hides the others, because lists are not merged.
func (r *request) unknownLimit(name string, levels []*plan.Config) error {
	if len(levels) == 0 {
		return invalid("amounts["+name+"]", "is not a limit of entity %q on resource %q, which have none", r.entity, r.resource)
	}
	cfg, names := levels[0], limitNames(levels)
	from := ConfigLevel(cfg.Limits[0].Level)
	for i := range cfg.Limits { // an override names only its own
		if level := ConfigLevel(cfg.Limits[i].Level); level != LevelOverride {
			from = level
		}
	}
	hides := map[ConfigLevel]string{
		LevelEntity:        "the entity's own list for this resource (level entity) hides its default list and those of the resource and the system: add the limit to it with Repository.SetEntityLimits",
		LevelEntityDefault: "the entity's default list (level entity_default) hides those of the resource and the system: add the limit to it with Repository.SetEntityLimits",
		LevelResource:      "the resource's list (level resource) hides the system's: add the limit to it with Repository.SetResourceLimits",
		LevelSystem:        "they are the system's: add the limit with Repository.SetSystemLimits",
		LevelOptions:       "they are Options.Limits: add the limit there",
		LevelOverride:      "they are those of WithLimits: add the limit there",
	}[from]
	return invalid("amounts["+name+"]", "is not a limit of entity %q on resource %q; the limits are %q; %s", r.entity, r.resource, names, hides)
}

// limitNames are the limits that any of the levels has.
func limitNames(levels []*plan.Config) []string {
	var names []string
	for _, cfg := range levels {
		names = append(names, cfg.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// amountsAt are the amounts above 0 of limits that a configuration has, in
// millitokens and name order.
func amountsAt(cfg *plan.Config, amounts Amounts) []plan.Signed {
	return appendAmounts(make([]plan.Signed, 0, len(amounts)), cfg, amounts)
}

func appendAmounts(out []plan.Signed, cfg *plan.Config, amounts Amounts) []plan.Signed {
	for i := range cfg.Limits {
		if n := amounts[cfg.Limits[i].Name]; n > 0 {
			out = append(out, plan.Signed{Name: cfg.Limits[i].Name, Amount: n * milli})
		}
	}
	return out
}
