package admin

import "github.com/dynalimit/dynalimit/internal/schema"

// Owner is the scope as the table has it.
func (s Scope) Owner() schema.ConfigOwner { return s.asOwner() }

// Normal spells a scope in its one way.
func (s Scope) Normal() Scope { return s.normalized() }

// Sum sums the limits of entities.
func Sum(entities []EntityCapacity, records map[string]Entity) []LimitCapacity {
	return sumCapacities(entities, records, nil)
}
