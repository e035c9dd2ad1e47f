package ledger

import (
	"cmp"
	"slices"

	"github.com/dynalimit/dynalimit/aggregator"
)

// Rank is the usage of a limit by one entity.
type Rank struct {
	Entity   string
	Parent   string
	Plan     string
	Resource string
	aggregator.LimitUsage
}

// Ranking sums usage by entity, resource and limit. The zero value is empty.
type Ranking struct {
	ranks map[ranked]*Rank
}

type ranked struct{ entity, resource, limit string }

// Add adds an entity's usage in a window to its sums by resource and limit, in millitokens. The entity's plan
// and parent come from the last added window that has them.
func (r *Ranking) Add(u aggregator.Usage) {
	if r.ranks == nil {
		r.ranks = map[ranked]*Rank{}
	}
	for _, l := range u.Limits {
		key := ranked{u.Entity, u.Resource, l.Limit}
		rank := r.ranks[key]
		if rank == nil {
			rank = &Rank{Entity: u.Entity, Resource: u.Resource, LimitUsage: aggregator.LimitUsage{Limit: l.Limit}}
			r.ranks[key] = rank
		}
		rank.LimitUsage = sumUsage(rank.LimitUsage, l)
		rank.Parent, rank.Plan = cmp.Or(u.Parent, rank.Parent), cmp.Or(u.Plan, rank.Plan)
	}
}

// Of returns the sums of each entity for a resource's limit, in millitokens, highest consumption first, equal
// ones by name. It is nil without usage.
func (r *Ranking) Of(resource, limit string) []Rank {
	var some []Rank
	for key, rank := range r.ranks {
		if key.resource == resource && key.limit == limit {
			some = append(some, *rank)
		}
	}
	slices.SortFunc(some, func(a, b Rank) int {
		return cmp.Or(cmp.Compare(b.Consumed, a.Consumed), cmp.Compare(a.Entity, b.Entity))
	})
	return some
}

// Limits returns the names of the limits with usage on a resource, sorted.
func (r *Ranking) Limits(resource string) []string {
	var names []string
	for key := range r.ranks {
		if key.resource == resource {
			names = append(names, key.limit)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
