package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/admin"
)

// unnamedEntities returns the entities that the file does not name although the manifest manages their record
// or a source. The map goes from the id to the scopes that the manifest manages.
func (c *comparison) unnamedEntities() map[string][]admin.Scope {
	out := map[string][]admin.Scope{}
	for id, e := range c.live.Entities {
		if _, named := c.m.Entities[id]; !named && e.ManagedBy == c.m.Name {
			out[id] = nil
		}
	}
	for at, stored := range c.live.Configs {
		if _, named := c.m.Entities[at.Entity]; !named && at.Entity != "" && stored.ManagedBy == c.m.Name {
			out[at.Entity] = append(out[at.Entity], at)
		}
	}
	return out
}

// pruneLeftOut handles the entities that the manifest manages and the file does not name. Without Prune it only
// sets their number, LeftOut. Otherwise it plans their deletion, children first, unless a block or raise keeps
// them; of entities with another manager's record only the manifest's sources.
func (c *comparison) pruneLeftOut() {
	out := c.unnamedEntities()
	if !c.o.Prune {
		c.p.LeftOut = len(out)
		return
	}
	foreign, goes, own := c.foreignSources(), c.pruned, c.sourcesOf()
	for _, id := range c.childrenFirst(out) {
		if e := c.live.Entities[id]; e.ManagedBy == c.m.Name {
			goes[id] = !c.keptBlocked(own[id]) && !keptRaised(own[id], &c.noted) && c.pruneEntity(e, goes, own[id], foreign[id])
			continue
		}
		for _, at := range out[id] { // another manager's record, or none
			stored := c.live.Configs[at]
			c.deleteSource(at, stored, c.keepBlock(at, stored, admin.LimitConfig{}))
		}
	}
}

// sourcesByHand returns the stored sources of the manifest's entities and plans that no manifest manages and
// the file does not name, with their fields, sorted. It leaves out empty ones and entities in deletion.
func sourcesByHand(m *Manifest, live *Live) (byHand []ByHand) {
	plans := map[string]bool{}
	for at := range m.Configs {
		plans[at.Plan] = at.Plan != ""
	}
	for at, stored := range live.Configs {
		_, entity := m.Entities[at.Entity]
		_, wanted := m.Configs[at]
		if fields := sourceFields(admin.LimitConfig{}, stored); (entity || plans[at.Plan]) && !wanted && stored.ManagedBy == "" && len(fields) > 0 && !live.Entities[at.Entity].Deleting {
			byHand = append(byHand, ByHand{at, fields})
		}
	}
	slices.SortFunc(byHand, func(a, b ByHand) int { return cmp.Compare(a.Scope.String(), b.Scope.String()) })
	return byHand
}

// sourcesOf returns the stored configurations of entities' sources, by entity, each list sorted by resource.
// Sources of plans and of everybody are left out.
func (c *comparison) sourcesOf() map[string][]admin.ScopedConfig {
	out := map[string][]admin.ScopedConfig{}
	for at, stored := range c.live.Configs {
		if at.Entity != "" {
			out[at.Entity] = append(out[at.Entity], admin.ScopedConfig{Scope: at, Config: stored})
		}
	}
	for _, sources := range out { // a stable order makes plans of the same table equal
		slices.SortFunc(sources, func(a, b admin.ScopedConfig) int { return cmp.Compare(a.Scope.Resource, b.Scope.Resource) })
	}
	return out
}

// keptBlocked reports whether an entity to prune must stay because one of its sources is blocked and the
// options do not lift blocks. It adds a warning to c.noted for each block.
func (c *comparison) keptBlocked(sources []admin.ScopedConfig) (kept bool) {
	for _, l := range sources {
		if blockOf(l.Config) == noBlock {
			continue
		}
		what := "the entity stays, with all its sources; --lift-blocks lets it go"
		if c.o.LiftBlocks {
			what = "it goes, and calls of the entity are admitted by less specific limits"
		}
		c.noted = append(c.noted, fmt.Sprintf("%s is blocked, and the file does not name the entity: %s", l.Scope, what))
		kept = !c.o.LiftBlocks
	}
	return kept
}

// keptRaised reports whether an entity to prune must stay because one of its sources has a raise. It appends a
// warning to warnings for each raise.
func keptRaised(sources []admin.ScopedConfig, warnings *[]string) (kept bool) {
	for _, l := range sources {
		for _, r := range l.Config.Raises {
			*warnings = append(*warnings, fmt.Sprintf("%s: %s, and the file does not name the entity: it stays until then", l.Scope, r))
			kept = true
		}
	}
	return kept
}

// raisesIn returns all stored raises of a table, with their sources, sorted by source and name.
func raisesIn(live *Live) (raises []Raised) {
	for at, stored := range live.Configs {
		for _, r := range stored.Raises {
			raises = append(raises, Raised{at, r})
		}
	}
	slices.SortFunc(raises, func(a, b Raised) int {
		return cmp.Or(cmp.Compare(a.Scope.String(), b.Scope.String()), cmp.Compare(a.Raise.Name, b.Raise.Name))
	})
	return raises
}

// childrenFirst returns the ids of entities, the keys of the map, in an order for deletion: children before
// their parents, then by id.
func (c *comparison) childrenFirst(of map[string][]admin.Scope) []string {
	depth := make(map[string]int, len(of))
	for id := range of {
		chain, _ := chainOf(id, c.finalParent)
		depth[id] = len(chain)
	}
	return slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(-cmp.Compare(depth[a], depth[b]), cmp.Compare(a, b))
	})
}

// foreignSources returns, by entity, the number of stored sources that the manifest does not manage and the
// options do not permit to adopt. Unreadable sources count unless the options adopt unmanaged items.
func (c *comparison) foreignSources() map[string]int {
	n := map[string]int{}
	for at, stored := range c.live.Configs {
		_, mine, _ := c.checkOwner(stored.ManagedBy)
		n[at.Entity] += btoi(!mine)
	}
	for at := range c.live.Unreadable {
		n[at.Entity] += btoi(!c.o.Adopt)
	}
	return n
}

// pruneEntity adds the deletion of an entity with its sources and buckets, and returns true. If the entity has
// children that stay, or foreign, the number of sources of others, is not 0, it adds a refusal and returns
// false. goes are the entities deleted before it.
func (c *comparison) pruneEntity(e admin.Entity, goes map[string]bool, sources []admin.ScopedConfig, foreign int) bool {
	ch := Change{Action: Delete, Entity: e.ID, record: e, sources: sources, Fields: recordFields(e, admin.Entity{}), Note: "with its limits and buckets"}
	staying := 0
	for _, id := range c.below[e.ID] {
		staying += btoi(!goes[id] && c.finalParent(id) == e.ID)
	}
	for id, named := range c.m.Entities {
		staying += btoi(named.Record.ParentID == e.ID && c.live.Entities[id].ParentID != e.ID)
	}
	switch {
	case staying > 0:
		ch.Action, ch.Note = Refuse, fmt.Sprintf("it is the parent of %d others that stay: name it in the file, or give them another parent", staying)
	case foreign > 0:
		ch.Action, ch.Note = Refuse, fmt.Sprintf("%d of its sources are not the manifest's, and would go with it: remove them first, or take them over with --adopt, or --adopt-from for those of another manifest", foreign)
	}
	c.addChange(ch)
	return ch.Action == Delete
}
