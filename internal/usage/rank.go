package usage

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// mostRanked is the length of a ranking.
	mostRanked = 20
	// mostCandidates bounds the entities that a ranking keeps until its parents are known.
	mostCandidates = 200
)

// Ranking finds the entities with the largest consumption in an hour, for each resource and limit. It leaves out
// entities with children: they count their children's calls, and would take every place.
type Ranking struct {
	largest map[[2]string][]schema.Ranked // by resource and limit
	parents map[string]bool
}

// NewRanking returns a ranking without entities.
func NewRanking() *Ranking {
	return &Ranking{largest: map[[2]string][]schema.Ranked{}, parents: map[string]bool{}}
}

// AddEntry adds an entity's consumption to the rankings of its resource and limits, and notes its parent. It
// leaves out consumption of 0 or less, and consumption by model. It keeps at least the 200 largest entities of
// each.
func (r *Ranking) AddEntry(e Entry) {
	if e.Place.Parent != "" {
		r.parents[e.Place.Parent] = true
	}
	for limit, n := range e.byLimit(false).Net {
		if n <= 0 || !schema.IsLimit(limit) {
			continue
		}
		of := [2]string{e.Resource, limit}
		r.largest[of] = append(r.largest[of], schema.Ranked{Entity: e.Entity, Consumed: n})
		if len(r.largest[of]) >= 2*mostCandidates {
			r.largest[of] = sortRanked(r.largest[of])[:mostCandidates]
		}
	}
}

// All returns the rankings of the hour, one for each resource, in the order of their resources. Each limit has
// at most 20 entities, the largest first, without parents of others. It changes the entities in r, so call it
// once, after the last AddEntry.
func (r *Ranking) All(hour time.Time) []schema.UsageRanking {
	byResource := map[string]schema.UsageRanking{}
	for of, entities := range r.largest {
		leaves := slices.DeleteFunc(sortRanked(entities), func(e schema.Ranked) bool { return r.parents[e.Entity] })
		if len(leaves) == 0 {
			continue
		}
		ranking, ok := byResource[of[0]]
		if !ok {
			ranking = schema.UsageRanking{Resource: of[0], Hour: hour, Limits: map[string][]schema.Ranked{}}
			byResource[of[0]] = ranking
		}
		ranking.Limits[of[1]] = leaves[:min(len(leaves), mostRanked)]
	}
	all := make([]schema.UsageRanking, 0, len(byResource))
	for _, resource := range slices.Sorted(maps.Keys(byResource)) {
		all = append(all, byResource[resource])
	}
	return all
}

// sortRanked sorts entities in place by their consumption, the largest first, then by id, and returns them.
func sortRanked(entities []schema.Ranked) []schema.Ranked {
	slices.SortFunc(entities, func(x, y schema.Ranked) int {
		return cmp.Or(cmp.Compare(y.Consumed, x.Consumed), cmp.Compare(x.Entity, y.Entity))
	})
	return entities
}

// MergeRankings sums the rankings of several hours by limit, in millitokens, the largest entity first. An
// entity's sum lacks the hours in which it was not ranked.
func MergeRankings(hours []schema.UsageRanking) map[string][]schema.Ranked {
	sums := map[string]map[string]int64{}
	for _, hour := range hours {
		for limit, entities := range hour.Limits {
			if sums[limit] == nil {
				sums[limit] = map[string]int64{}
			}
			for _, e := range entities {
				sums[limit][e.Entity] = saturatedSum(sums[limit][e.Entity], e.Consumed)
			}
		}
	}
	merged := map[string][]schema.Ranked{}
	for limit, entities := range sums {
		for entity, n := range entities {
			merged[limit] = append(merged[limit], schema.Ranked{Entity: entity, Consumed: n})
		}
		sortRanked(merged[limit])
	}
	return merged
}
