package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit"
)

// unnamed are the manifest's entities that the file does not name, with the levels of them
// that it manages, whoever manages the record.
func (c *comparison) unnamed() map[string][]dynalimit.Scope {
	out := map[string][]dynalimit.Scope{}
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

// leftOut decides about the manifest's entities that the file does not name.
func (c *comparison) leftOut() {
	out := c.unnamed()
	if !c.o.Prune {
		c.p.LeftOut = len(out)
		return
	}
	foreign, goes := c.foreignLevels(), c.pruned
	for _, id := range c.childrenFirst(out) {
		c.blocksGo(out[id])
		if e := c.live.Entities[id]; e.ManagedBy == c.m.Name {
			goes[id] = c.prune(e, goes, foreign[id])
			continue
		}
		for _, at := range out[id] { // the record is somebody else's, or there is none
			c.deleteLevel(at, c.live.Configs[at], dynalimit.LimitConfig{})
		}
	}
}

// blocksGo warns of the blocks among levels that are deleted.
func (c *comparison) blocksGo(levels []dynalimit.Scope) {
	for _, at := range levels {
		if c.live.Configs[at].Blocked {
			c.blocked = append(c.blocked, fmt.Sprintf("%s is blocked, and goes: calls of the entity are admitted by less specific limits", at))
		}
	}
}

// childrenFirst are entities in the order in which they can be deleted.
func (c *comparison) childrenFirst(of map[string][]dynalimit.Scope) []string {
	depth := make(map[string]int, len(of))
	for id := range of {
		chain, _ := chainOf(id, c.parent)
		depth[id] = len(chain)
	}
	return slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(-cmp.Compare(depth[a], depth[b]), cmp.Compare(a, b))
	})
}

// foreignLevels counts the levels of entities that the manifest neither manages nor may take
// over.
func (c *comparison) foreignLevels() map[string]int {
	n := map[string]int{}
	for at, stored := range c.live.Configs {
		_, mine, _ := c.owner(stored.ManagedBy)
		n[at.Entity] += btoi(!mine)
	}
	for at := range c.live.Unreadable {
		n[at.Entity] += btoi(!c.o.Adopt)
	}
	return n
}

// prune deletes an entity with all that is its own, unless others need it; goes are those
// that are deleted before it. It is false for one that stays.
func (c *comparison) prune(e dynalimit.Entity, goes map[string]bool, foreign int) bool {
	ch := Change{Action: Delete, Entity: e.ID, record: e, Fields: recordFields(e, dynalimit.Entity{}), Note: "with its limits and buckets"}
	staying := 0
	for _, id := range c.below[e.ID] {
		staying += btoi(!goes[id] && c.parent(id) == e.ID)
	}
	for id, named := range c.m.Entities {
		staying += btoi(named.Record.ParentID == e.ID && c.live.Entities[id].ParentID != e.ID)
	}
	switch {
	case staying > 0:
		ch.Action, ch.Note = Refuse, fmt.Sprintf("it is the parent of %d others that stay: name it in the file, or give them another parent", staying)
	case foreign > 0:
		ch.Action, ch.Note = Refuse, fmt.Sprintf("%d of its levels are not the manifest's, and would go with it: remove them first, or take them over with --adopt, or --adopt-from for those of another manifest", foreign)
	}
	c.add(ch)
	return ch.Action == Delete
}
