package console

import (
	"context"

	"github.com/dynalimit/dynalimit/admin"
)

// readChain returns an entity and the parents that its calls charge, lowest first, as readOwned reads them. It
// stops at a cycle and after mostLevels. It returns errMissing if the visitor may not see the entity.
func readChain(ctx context.Context, v *view, id string) ([]admin.Owned, error) {
	var chain []admin.Owned
	seen := map[string]bool{}
	inside := v.access.Under == ""
	for next := id; next != "" && len(chain) < mostLevels; {
		if seen[next] { // a cycle, which another tool made
			if v.access.Under != "" {
				return nil, errMissing
			}
			break
		}
		seen[next] = true
		owned, err := readOwned(ctx, v, next)
		if err != nil {
			return nil, err
		}
		chain = append(chain, owned)
		inside = inside || next == v.access.Under
		if next = owned.Entity.ParentID; owned.Entity.Detached && inside {
			break
		}
	}
	if !inside || len(chain) == 0 {
		return nil, errMissing
	}
	return chain, nil
}

// readOwned returns an entity with its configurations by a consistent read. Visitors of the whole table share
// it for a moment, and get the last one while the table does not answer. For a visitor of a subtree, and for a
// change, it is read again each time.
func readOwned(ctx context.Context, v *view, id string) (admin.Owned, error) {
	read := func() (admin.Owned, error) {
		owned, err := v.admin.Entities.Owned(ctx, id)
		if err == nil {
			v.learnMoney(owned.Configs)
		}
		return owned, err
	}
	if v.access.Under == "" && !v.fresh {
		return fetch(&v.visit, "owned "+id, keepBuckets, 1, read)
	}
	if err := v.takeUnits(1); err != nil {
		return admin.Owned{}, err
	}
	return read()
}
