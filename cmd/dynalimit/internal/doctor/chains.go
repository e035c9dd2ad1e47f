package doctor

import (
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// chains is the parents that count by entity, and the number of children of each.
type chains struct {
	parents  map[string]string
	children map[string]int
}

// chainsOf returns the chains of records: the parent of each entity with an attached parent, and the number of
// such children by parent.
func chainsOf(records []admin.Entity) chains {
	c := chains{map[string]string{}, map[string]int{}}
	for _, e := range records {
		if e.ParentID != "" && !e.Detached {
			c.parents[e.ID] = e.ParentID
			c.children[e.ParentID]++
		}
	}
	return c
}

// chainFault describes the fault of an entity's chain of parents, or returns "". It reports each fault at one
// entity: a chain that is too deep at its lowest, and a cycle at its first entity by name.
func (c chains) chainFault(e admin.Entity) string {
	chain := []string{e.ID}
	for at := c.parents[e.ID]; at != ""; at = c.parents[at] {
		switch {
		case at == e.ID && e.ID == slices.Min(chain):
			return fmt.Sprintf("%s is its own ancestor, and each call of it fails", e.ID)
		case slices.Contains(chain, at):
			return ""
		}
		chain = append(chain, at)
	}
	if len(chain) > schema.MaxDepth && c.children[e.ID] == 0 {
		return fmt.Sprintf("%s has %d levels with its parents, and calls charge the nearest %d or are refused", e.ID, len(chain), schema.MaxDepth)
	}
	return ""
}
