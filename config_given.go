package dynalimit

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// givenConfigs are the configurations of entities whose calls give a plan (WithPlan). They have a
// cache of their own, so that made-up plans of made-up entities push out nothing else. The items of
// a plan are cached once for all entities.
type givenConfigs struct {
	resolved *cache.Loading[givenKey, *resolvedConfig]
	plans    *cache.Loading[planKey, *planItems]
	// of is the plan that was last given for an entity.
	of *cache.Recent[string, givenPlan]
	// disputeOnce logs the first entity for which two plans are given.
	disputeOnce sync.Once
}

// givenKey names a configuration with the plan that a call gives; empty for none. The plan counts where
// the entity's record names none.
type givenKey struct {
	configKey
	plan string
}

// String is the key as text; '#' is in no identifier.
func (k givenKey) String() string { return k.configKey.String() + "#" + k.plan }

// ofPlan is the key of the plan's items.
func (k givenKey) ofPlan() planKey { return planKey{k.plan, k.resource, k.group} }

// planKey names the items of a plan for a resource or a group.
type planKey struct {
	plan, resource string
	group          bool
}

// String is the key as text.
func (k planKey) String() string { return configKey{k.plan, k.resource, k.group}.String() }

// givenPlan is the plan that a call gave for an entity.
type givenPlan struct{ entity, plan string }

// newGivenConfigs makes the caches: a quarter of a size, for as long as a configuration is fresh.
func newGivenConfigs(size int, o cache.Options[*resolvedConfig]) givenConfigs {
	size = max(1, size/4)
	resolved, _ := cache.NewLoading[givenKey](size, o) // a size below 1 was refused
	plans, _ := cache.NewLoading[planKey](size, cache.Options[*planItems]{Now: o.Now, TTL: o.TTL, Grace: o.Grace, Definite: isDefinite, Unanswered: unavailable})
	of, _ := cache.NewRecent(size, func(p *givenPlan) string { return p.entity })
	return givenConfigs{resolved: resolved, plans: plans, of: of}
}

// fresh returns a configuration if neither it nor its plan need be read.
func (g *givenConfigs) fresh(key givenKey) *resolvedConfig {
	c := g.resolved.Fresh(key)
	if c == nil || c.givenPlan() != nil && g.plans.Fresh(key.ofPlan()) != c.givenPlan() {
		return nil
	}
	return c
}

// configReader reads a configuration, and the items of the plan that the call gives.
type configReader interface {
	load(ctx context.Context) (*resolvedConfig, error)
	plan(ctx context.Context, name string) (own, all schema.Item, err error)
}

// get returns a configuration. One that was made of a plan which has changed since is read again.
func (g *givenConfigs) get(ctx context.Context, key givenKey, read configReader) (*resolvedConfig, error) {
	c, err := g.resolved.Get(ctx, key, read.load)
	if err != nil || c.givenPlan() == nil {
		return c, err
	}
	items, err := g.items(ctx, key, read)
	if err != nil || items == c.givenPlan() {
		return c, err
	}
	g.resolved.Drop(key)
	return g.resolved.Get(ctx, key, read.load)
}

// items are those of the plan that a call gives.
func (g *givenConfigs) items(ctx context.Context, of givenKey, read configReader) (*planItems, error) {
	key := of.ofPlan()
	return g.plans.Get(ctx, key, func(ctx context.Context) (*planItems, error) {
		own, all, err := read.plan(ctx, key.plan)
		if err != nil {
			return nil, err
		}
		if last := g.plans.Last(key); last != nil && sameItem(last.own, own) && sameItem(last.all, all) {
			return last, nil
		}
		return &planItems{key.plan, own, all}, nil
	})
}

// sameItem reports whether an item has not changed.
func sameItem(a, b schema.Item) bool { return reflect.DeepEqual(a, b) }

// noteDispute logs the first entity for which calls give two plans.
func (g *givenConfigs) noteDispute(ctx context.Context, log *slog.Logger, entity, plan string) {
	last := g.of.Get(entity)
	if last != nil && last.plan == plan {
		return
	}
	g.of.Add(givenPlan{entity, plan})
	if last == nil {
		return
	}
	g.disputeOnce.Do(func() {
		log.WarnContext(ctx, "calls give two plans for one entity; they take turns with its buckets",
			slog.String("entity", entity), slog.String("plan", plan), slog.String("before", last.plan))
	})
}

// evict forgets the configurations that match, and the plans on their resources.
func (g *givenConfigs) evict(match func(configKey) bool) {
	g.resolved.Evict(func(k givenKey) bool { return match(k.configKey) })
	g.plans.Evict(func(k planKey) bool { return match(configKey{"", k.resource, k.group}) })
}

// evictPlans forgets plans on the resources that match, and what was made of them.
func (g *givenConfigs) evictPlans(plans map[string]bool, match func(configKey) bool) {
	g.plans.Evict(func(k planKey) bool { return plans[k.plan] && match(configKey{"", k.resource, k.group}) })
	g.resolved.EvictValues(func(k givenKey) bool { return match(k.configKey) }, func(c *resolvedConfig) bool { return plans[c.plan] })
}

// useStaleDuring is that of configCache.
func (g *givenConfigs) useStaleDuring(away func() error, maxStale time.Duration) {
	g.resolved.Away, g.resolved.MaxStale = away, maxStale
	g.plans.Away, g.plans.MaxStale = away, maxStale
}
