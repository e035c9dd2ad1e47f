package main

import (
	"context"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
)

// withParents reads entities, and those that they cascade into, by their ids.
func withParents(ctx context.Context, repo *dynalimit.Repository, ids []string) (map[string]dynalimit.Entity, error) {
	known := map[string]dynalimit.Entity{}
	for len(ids) > 0 {
		read, err := repo.GetEntities(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i, e := range read {
			known[ids[i]] = e
		}
		parents := map[string]bool{}
		for _, e := range read {
			if _, have := known[e.ParentID]; e.Cascade && e.ParentID != "" && !have {
				parents[e.ParentID] = true
			}
		}
		ids = slices.Sorted(maps.Keys(parents))
	}
	return known, nil
}

// cascade are the entities that one cascades into, the nearest first.
func cascade(e dynalimit.Entity, known map[string]dynalimit.Entity) (above []string) {
	for e.Cascade && e.ParentID != "" && !slices.Contains(above, e.ParentID) {
		above = append(above, e.ParentID)
		e = known[e.ParentID]
	}
	return above
}

// countOnce leaves out what users used of a limit in a window in which one that they cascade
// into used it too: there it is in what that one used.
func countOnce(users []consumer) {
	byID := map[string]tallies{}
	for _, u := range users {
		byID[u.ID] = u.used
	}
	left := make([]tallies, len(users))
	for i, u := range users {
		left[i] = tallies{}
		for limit, t := range u.used {
			if t = t.without(u.above, limit, byID); t != nil {
				left[i][limit] = t
			}
		}
	}
	for i := range users {
		users[i].used = left[i]
	}
}

// without is the tally without the windows in which one of those above used the limit; nil
// if nothing is left.
func (t *tally) without(above []string, limit string, users map[string]tallies) *tally {
	left := &tally{slices.Clone(t.counted), slices.Clone(t.open), slices.Clone(t.known)}
	for i := range left.counted {
		if slices.ContainsFunc(above, func(id string) bool {
			up := users[id][limit]
			return up != nil && up.counted[i].Consumed != 0
		}) {
			left.counted[i], left.open[i], left.known[i] = aggregator.LimitUsage{}, false, false
		}
	}
	if !slices.Contains(left.known, true) {
		return nil
	}
	return left
}
