package config

import (
	"context"
	"log/slog"
	"reflect"
	"sync"

	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// givenConfigs are the configurations of entities with calls that give a plan (WithPlan). They have a cache
// of their own, so that made-up plans of made-up entities evict no other configurations. The items of a plan
// are cached once for all entities.
type givenConfigs struct {
	resolved *cache.Loading[GivenKey, *Resolved]
	plans    *cache.Loading[planKey, *planItems]
	// of has the last given plan of each entity.
	of *cache.Recent[string, string]
	// disputeOnce logs the first entity with two given plans.
	disputeOnce sync.Once
}

// newGivenConfigs makes empty caches of configurations, plans and last given plans, each with room for a
// quarter of size, at least 1.
func newGivenConfigs(size int, o cache.Options[*Resolved]) givenConfigs {
	size = max(1, size/4)
	resolved, _ := cache.NewLoading[GivenKey](size, o) // a size below 1 was refused
	plans, _ := cache.NewLoading[planKey](size, cache.Options[*planItems]{
		Now: o.Now, TTL: o.TTL, Grace: o.Grace, Away: o.Away, MaxStale: o.MaxStale, Definite: isDefiniteError, Unanswered: isUnanswered,
	})
	of, _ := cache.NewRecent[string, string](size)
	return givenConfigs{resolved: resolved, plans: plans, of: of}
}

// fresh returns the cached configuration of a key if it and the plan's items behind it are within their TTL;
// else nil. Newer items of the plan make it nil too.
func (g *givenConfigs) fresh(key GivenKey) *Resolved {
	c := g.resolved.Fresh(key)
	if c == nil || c.givenPlan() != nil && g.plans.Fresh(key.planItemsKey()) != c.givenPlan() {
		return nil
	}
	return c
}

// get returns the configuration for a call that gives a plan, from the cache or read. It drops it and reads it
// again if it was made from older items of the plan.
func (g *givenConfigs) get(ctx context.Context, read *configRead) (*Resolved, error) {
	c, err := g.resolved.Get(ctx, read.key, read.load)
	if err != nil || c.givenPlan() == nil {
		return c, err
	}
	items, err := g.readPlanItems(ctx, read)
	if err != nil || items == c.givenPlan() {
		return c, err
	}
	g.resolved.Drop(read.key)
	return g.resolved.Get(ctx, read.key, read.load)
}

// readPlanItems returns the items of the plan that a call gives, from the cache or read, or the read's error.
// If they are unchanged, it returns the old pointer, so that the configurations made from it stay valid.
func (g *givenConfigs) readPlanItems(ctx context.Context, read *configRead) (*planItems, error) {
	key := read.key.planItemsKey()
	return g.plans.Get(ctx, key, func(ctx context.Context) (*planItems, error) {
		own, all, err := (&configRead{of: read.of, key: read.key}).readPlan(ctx, key.plan, nil)
		if err != nil {
			return nil, err
		}
		if last := g.plans.Last(key); last != nil && sameItem(last.own, own) && sameItem(last.all, all) {
			return last, nil
		}
		return &planItems{key.plan, own, all}, nil
	})
}

// sameItem reports whether two items are equal.
func sameItem(a, b schema.Item) bool { return reflect.DeepEqual(a, b) }

// noteDispute remembers the plan that a call gives for an entity. If the entity's last call gave another plan,
// it logs that, once per cache.
func (g *givenConfigs) noteDispute(ctx context.Context, log *slog.Logger, entity, plan string) {
	last := g.of.Get(entity)
	if last != nil && *last == plan {
		return
	}
	g.of.Add(entity, plan)
	if last == nil {
		return
	}
	g.disputeOnce.Do(func() {
		log.WarnContext(ctx, "calls give two plans for one entity; they take turns with its buckets",
			slog.String("entity", entity), slog.String("plan", plan), slog.String("before", *last))
	})
}

// evict removes the matching configurations, and the items of all plans on their resources. It drops their
// reads in flight.
func (g *givenConfigs) evict(match func(Key) bool) {
	g.resolved.Evict(func(k GivenKey) bool { return match(k.Key) })
	g.plans.Evict(func(k planKey) bool { return match(Key{"", k.resource, k.group}) })
}

// evictPlans removes the items of the plans on the matching resources, and the configurations made from these
// plans. It drops their reads in flight.
func (g *givenConfigs) evictPlans(plans map[string]bool, match func(Key) bool) {
	g.plans.Evict(func(k planKey) bool { return plans[k.plan] && match(Key{"", k.resource, k.group}) })
	g.resolved.EvictValues(func(k GivenKey) bool { return match(k.Key) }, func(c *Resolved) bool { return plans[c.Plan] })
}
