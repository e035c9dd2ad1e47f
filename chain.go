package dynalimit

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// maxDepth bounds how many levels an entity and its parents make.
const maxDepth = 8

// chain resolves the entity and, where it cascades, its parents: child first.
// Levels that nothing limits are left out; of some, nothing may be asked. What has
// to be read is waited for until then, the zero time for as long as ctx lasts.
func (l *RateLimiter) chain(ctx context.Context, r request, until time.Time) ([]level, UnavailablePolicy, error) {
	policy := r.opts.onUnavailable
	if err := l.repo.compatible(r.resource, "WithLimits", r.opts.limits); err != nil {
		return nil, policy, err
	}
	levels := make([]level, 0, 1)
	var visited [maxDepth]string
	for depth, id := 0, r.entity; id != ""; depth++ {
		if depth == maxDepth {
			l.tooDeep(ctx, r.entity, id)
			break
		}
		if slices.Contains(visited[:depth], id) {
			return nil, policy, invalid("entity", "%s is its own ancestor; correct the parents", id)
		}
		visited[depth] = id
		lane, resolved, err := l.resolve(ctx, id, r.resource, until)
		if err != nil {
			return nil, l.policy(policy), err
		}
		policy = cmp.Or(policy, resolved.onUnavailable)
		cfg, err := l.levelConfig(r, id, resolved)
		if err != nil {
			return nil, policy, err
		}
		if cfg != nil {
			levels = append(levels, level{lane: lane, cfg: cfg, asked: amountsAt(cfg, r.amounts)})
		}
		id = resolved.charged()
	}
	return levels, l.policy(policy), checkKnown(r, levels)
}

// resolve returns the lane of a bucket and what the stored configuration says of
// it. The lane learns the bucket if that came with the configuration.
func (l *RateLimiter) resolve(ctx context.Context, entity, resource string, until time.Time) (*lane.Lane, *resolvedConfig, error) {
	asked := l.nowMS()
	resolved, item, read, err := l.store.config(ctx, entity, resource, until)
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
	if l.systemPolicy.Load() != &resolved.onUnavailable {
		l.systemPolicy.Store(&resolved.onUnavailable)
	}
	return at, resolved, nil
}

// tooDeep tells the operator, once, that a chain has more levels than are
// charged. The nearest are: refusing the call would stop all traffic below for a
// record that somebody made far above.
func (l *RateLimiter) tooDeep(ctx context.Context, entity, ancestor string) {
	l.deep.Do(func() {
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

// levelConfig is what limits a level of a call, nil for nothing: its own entity's
// has the limits of the call.
func (l *RateLimiter) levelConfig(r request, entity string, resolved *resolvedConfig) (*plan.Config, error) {
	cfg := l.fallback.compile(resolved)
	if entity == r.entity && len(r.opts.limits) > 0 {
		return l.override(cfg, resolved, r.opts.limits)
	}
	return cfg, nil
}

// override puts the limits of the call over the entity's own.
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

// checkKnown refuses amounts of limits that no level has: a typo would be
// admitted for ever.
func checkKnown(r request, levels []level) error {
	if len(levels) == 0 {
		return invalid("limits", "none are configured for entity %q on resource %q at any level; set some with Repository.SetSystemLimits, SetResourceLimits or SetEntityLimits, with Options.Limits or with WithLimits", r.entity, r.resource)
	}
	for name := range r.amounts {
		if !slices.ContainsFunc(levels, func(lv level) bool { return lv.cfg.Index(name) >= 0 }) {
			return r.unknown(name, levels)
		}
	}
	return nil
}

// unknown says that a limit is none of a request's levels, what they have, and
// which list hides the others: lists are not merged.
func (r *request) unknown(name string, levels []level) error {
	if len(levels) == 0 {
		return invalid("amounts["+name+"]", "is not a limit of entity %q on resource %q, which have none", r.entity, r.resource)
	}
	cfg, names := levels[0].cfg, limitNames(levels)
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

// limitNames are the limits that some level has.
func limitNames(levels []level) []string {
	var names []string
	for i := range levels {
		for j := range levels[i].cfg.Limits {
			names = append(names, levels[i].cfg.Limits[j].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// amountsAt are the amounts above 0 of limits that a configuration has, in
// millitokens and name order.
func amountsAt(cfg *plan.Config, amounts Amounts) []plan.Signed {
	out := make([]plan.Signed, 0, len(amounts))
	for i := range cfg.Limits {
		if n := amounts[cfg.Limits[i].Name]; n > 0 {
			out = append(out, plan.Signed{Name: cfg.Limits[i].Name, Amount: n * milli})
		}
	}
	return out
}
