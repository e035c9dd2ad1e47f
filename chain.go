package dynalimit

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// maxDepth bounds the levels of an entity and its parents.
const maxDepth = schema.MaxDepth

// cascade is what a call charges: the buckets of its entity and, if that cascades, of
// its parents, child first. It is all that a denial from memory needs and lies on the
// caller's stack; a lease is made from it only when it is needed.
type cascade struct {
	rungs []rung
	// unlimited means that a level is unlimited: it is charged nothing and has every
	// limit.
	unlimited bool
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

// passOn notes what is asked of a rung and of one above it too: the second of the counters
// that measure usage counts it, so that totals count it once, at the highest. A lease that
// takes further decides as it did before.
func (c *cascade) passOn(lease *Lease) {
	for i := range len(c.rungs) - 1 {
		asked := c.askedOf(i)
		for k := range asked {
			a := &asked[k]
			if lease == nil && hasLimit(c.rungs[i+1:], a.Name) || lease != nil && lease.passes(i, a.Name) {
				a.Passed = a.Amount
			}
		}
	}
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
		room = append(room, level{lane: r.lane, cfg: r.cfg, counts: r.cfg, asked: asked[r.from:r.to:r.to], served: r.served, servedAt: r.servedAt})
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
// may be asked. p bounds the wait for reads. A nil p is that of a lease that is out: its
// reads last as long as ctx, and it goes on where new calls are blocked.
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
			return c, cmp.Or(policy, l.opts.OnUnavailable), l.orBlocked(err, r, id, p)
		}
		policy = cmp.Or(policy, resolved.onUnavailable)
		if resolved.blocked != "" && p != nil {
			return c, cmp.Or(policy, l.opts.OnUnavailable), blockedBy(id, r.resource, resolved)
		}
		if c, err = l.extend(c, r, lane, resolved); err != nil {
			return c, policy, err
		}
		id = resolved.charged()
	}
	c.passOn(nil)
	return c, cmp.Or(policy, l.opts.OnUnavailable), l.checkKnown(r, &c)
}

// extend adds a level to the cascade of a call, if anything limits it.
func (l *RateLimiter) extend(c cascade, r *request, at *lane.Lane, resolved *resolvedConfig) (cascade, error) {
	cfg, err := l.levelConfig(r, at.Entity, resolved)
	if err != nil {
		return c, err
	}
	if cfg != nil {
		c = c.with(at, cfg, r.amounts)
	}
	c.unlimited = c.unlimited || resolved.unlimited
	return c, nil
}

// remembered is what was last read about a call, however old: its policy, and whether
// nothing limits it. It asks nobody.
func (l *RateLimiter) remembered(r *request) (policy UnavailablePolicy, unlimited bool) {
	policy, unlimited = r.opts.onUnavailable, len(r.opts.limits) == 0
	id := r.entity
	for depth := 0; id != "" && depth < maxDepth; depth++ {
		last := l.repo.configs.last(configKey{id, r.resource})
		if last == nil {
			unlimited = false
			break
		}
		policy, unlimited = cmp.Or(policy, last.onUnavailable), unlimited && last.unlimited
		id = last.charged()
	}
	return cmp.Or(policy, l.knownPolicy()), unlimited
}

// orBlocked is the error of a call whose configuration could not be read. A block that is
// known stays in force, however old what is known of it.
func (l *RateLimiter) orBlocked(err error, r *request, id string, p *patience) error {
	if p == nil || !unavailable(err) {
		return err
	}
	if block := l.lastBlock(id, r.resource); block != nil {
		return block
	}
	return err
}

// lastBlock is the block of a level, or of a parent that it charges, as last read, however
// old; nil for none.
func (l *RateLimiter) lastBlock(entity, resource string) error {
	for depth := 0; entity != "" && depth < maxDepth; depth++ {
		last := l.repo.configs.last(configKey{entity, resource})
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
func (l *RateLimiter) blockFor(ctx context.Context, r *request) (oldest int64, block error) {
	oldest = math.MaxInt64
	if err := l.repo.refused(); err != nil {
		return oldest, err
	}
	id := r.entity
	for depth := 0; id != "" && depth < maxDepth; depth++ {
		resolved, _, _, err := l.store.config(ctx, id, r.resource, time.Time{})
		if inactive := l.repo.namespace.inactive(); inactive != nil {
			return oldest, inactive
		}
		if err != nil {
			return oldest, l.lastBlock(id, r.resource) // who reads the limits hears of err
		}
		if oldest = min(oldest, resolved.readAt); resolved.blocked != "" {
			return oldest, blockedBy(id, r.resource, resolved)
		}
		id = resolved.charged()
	}
	return oldest, nil
}

// resolve returns the lane of a bucket and its stored configuration. If the bucket was
// read with the configuration, the lane gets its image.
func (l *RateLimiter) resolve(ctx context.Context, entity, resource string, p *patience) (*lane.Lane, *resolvedConfig, error) {
	if p != nil { // a lease that is out goes on
		if err := l.repo.refused(); err != nil {
			return nil, nil, err
		}
	}
	if resolved := l.repo.known(entity, resource); resolved != nil && (p == nil || l.repo.namespace.inactive() == nil) {
		l.keepSystemPolicy(resolved)
		return l.lanes.Of(entity, resource), resolved, nil
	}
	asked := l.lanes.Ask()
	resolved, item, read, err := l.store.config(ctx, entity, resource, l.bound(ctx, p))
	if p != nil {
		err = l.repo.refusedBy(ctx, l.silentRead(err, configKey{entity, resource}, p))
	}
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
	if l.systemPolicy.Load() != &resolved.systemPolicy {
		l.systemPolicy.Store(&resolved.systemPolicy)
	}
}

// locate finds the buckets that calls of an entity on a resource charge.
func (l *RateLimiter) locate(ctx context.Context, entity, resource string) ([]lane.Located, error) {
	c, _, err := l.chain(ctx, &request{entity: entity, resource: resource}, cascade{}, nil)
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
func (l *RateLimiter) warnTooDeep(ctx context.Context, entity, ancestor string) {
	l.deepOnce.Do(func() {
		l.opts.Logger.WarnContext(ctx, "an entity has too many levels of parents; those from the ancestor on are not charged",
			slog.String("entity", entity), slog.String("ancestor", ancestor), slog.Int("levels", maxDepth))
	})
}

// levelConfig is what limits a level of a call; nil for nothing. The level of the call's
// own entity gets the limits of WithLimits, also where it is unlimited.
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
// would be admitted for ever. With WithIgnoreUnknown it refuses those that a level has
// which is not in force, and some level has to have one of them.
func (l *RateLimiter) checkKnown(r *request, c *cascade) error {
	if c.unlimited {
		return nil
	}
	if len(c.rungs) == 0 {
		return invalid("limits", "none are configured for entity %q on resource %q at any level; set some with Repository.SetLimits, with Options.Limits or with WithLimits", r.entity, r.resource)
	}
	if len(c.rungs) == 1 && len(c.asked) == len(r.amounts) {
		return nil
	}
	known, levels := 0, c.configs()
	for name := range r.amounts {
		switch {
		case c.has(name):
			known++
		case !r.opts.ignoreUnknown || l.hides(name, levels):
			return l.unknownLimit(r, name, levels)
		}
	}
	if known == 0 && len(r.amounts) > 0 { // nothing would limit the call
		return l.unknownLimit(r, r.amounts.names()[0], levels)
	}
	return nil
}

// has reports whether any rung has a limit.
func (c *cascade) has(name string) bool {
	return hasLimit(c.rungs, name)
}

// hasLimit reports whether any of some rungs has a limit.
func hasLimit(rungs []rung, name string) bool {
	for i := range rungs {
		if rungs[i].cfg.Index(name) >= 0 {
			return true
		}
	}
	return false
}

// unknownLimit is the error for a limit that no level in force has. It names the limits
// there are and, because lists are not merged, the list that hides the others.
func (l *RateLimiter) unknownLimit(r *request, name string, levels []*plan.Config) error {
	field := "amounts[" + name + "]"
	if len(levels) == 0 {
		return invalid(field, "is not a limit of entity %q on resource %q, which have none", r.entity, r.resource)
	}
	why := config.Unknown(wonBy(levels[0]))
	if won, hidden := l.hiding(name, levels); hidden != "" {
		why = config.NotInForce(won, hidden)
	}
	return invalid(field, "is not a limit of entity %q on resource %q; the limits are %q; %s", r.entity, r.resource, limitNames(levels), why)
}

// wonBy is the level that a configuration's limits come from; WithLimits adds only its
// own to them.
func wonBy(cfg *plan.Config) config.Level {
	from := config.Level(cfg.Limits[0].Level)
	for i := range cfg.Limits {
		if level := config.Level(cfg.Limits[i].Level); level != config.Override {
			from = level
		}
	}
	return from
}

// hiding is the level that won, and the less specific one that has a limit; empty if no
// level has it.
func (l *RateLimiter) hiding(name string, levels []*plan.Config) (won, hidden config.Level) {
	for _, cfg := range levels {
		for _, h := range cfg.Hidden {
			if h.Name == name {
				return wonBy(cfg), config.Level(h.Level)
			}
		}
	}
	won = wonBy(levels[0])
	ours := slices.ContainsFunc(l.opts.Limits, func(own Limit) bool { return own.Name == name })
	if ours && won != config.Options && won != config.Override {
		return won, config.Options
	}
	return "", ""
}

// hides reports whether a limit that no level has in force is one of a less specific level.
func (l *RateLimiter) hides(name string, levels []*plan.Config) bool {
	_, hidden := l.hiding(name, levels)
	return hidden != ""
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
