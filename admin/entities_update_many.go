package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// mostMoves is how many entities get another parent at once.
const mostMoves = 8

// UpdateMany is Entities.Update for many entities, each once: 49 in each transaction, with
// their events, so that ten thousand take seconds. Those that get another parent are changed
// last, one by one, 8 at once, because each move reads its ancestors.
//
// It returns an error for each entity, nil for one that is as it was given, in their order;
// see Entities.Update. Its Version is then one above the given one, unless it was
// stored already. If the input is bad it returns a single *ValidationError, and nothing was
// written. Once the table does not serve, or ctx has ended, the rest fails with that error.
func (n Entities) UpdateMany(ctx context.Context, entities []Entity) ([]error, error) {
	u := &entityUpdates{lineage: n.lineage, given: entities, records: make([]schema.EntityRecord, len(entities)), errs: make([]error, len(entities))}
	changed := make(map[string]bool, len(entities))
	for i, e := range entities {
		err := checkUpdate(e)
		if err == nil && changed[e.ID] {
			err = invalid("entity.ID", "%q is given twice; give each entity once", e.ID)
		}
		if err != nil {
			return nil, withinField(fmt.Sprintf("entities[%d].", i), err)
		}
		changed[e.ID], u.records[i] = true, recordOf(e)
	}
	if err := n.d.checkChange(ctx); err != nil {
		return nil, err
	}
	var err error
	if u.compared, err = n.d.compareSources(nil, false); err != nil {
		return nil, err
	}
	defer n.d.Told.Entities(changed)
	for from := 0; from < len(entities); {
		to := from + len(firstFitting(u.records[from:], func(e schema.EntityRecord) (parts, metadata int) { return 2, len(e.Metadata) }))
		if down := u.updateTogether(ctx, from, to); down != nil {
			for i := to; i < len(entities); i++ {
				u.errs[i] = down
			}
			for _, i := range u.moved {
				u.errs[i] = down
			}
			return u.errs, nil
		}
		from = to
	}
	u.moveEntities(ctx)
	return u.errs, nil
}

// entityUpdates are many changes of records under way.
type entityUpdates struct {
	lineage
	given   []Entity
	records []schema.EntityRecord
	errs    []error
	// compared compares the limits before and after; the sources are read once for all.
	compared *comparison
	// moved are the entities that get another parent, by their places.
	moved []int
}

// updateTogether changes the records with the indexes from up to to, excluded, in one transaction, and sets
// their errors in u.errs. Entities that get another parent, or change its counting, are only added to u.moved.
// It returns an error if further transactions would fail too.
func (u *entityUpdates) updateTogether(ctx context.Context, from, to int) error {
	const op = "update entities"
	keys := make([]schema.Key, 0, to-from)
	for _, e := range u.records[from:to] {
		keys = append(keys, u.d.Keys.Meta(e.ID))
	}
	changes := make([]entityChange, to-from)
	for attempt := 1; ; attempt++ {
		items, err := u.d.Table.BatchGet(ctx, op, keys)
		read, again := err == nil, false
		if read {
			u.planChanges(changes, from, items)
			read, err = u.refuseLosses(ctx, changes, from)
		}
		if read {
			again, err = u.d.Table.Try(ctx, op, attempt, u.proposeChanges(changes, from))
		}
		if again {
			continue
		}
		for n, c := range changes {
			switch i := from + n; {
			case !read:
				u.errs[i] = err
			case u.errs[i] != nil || !c.changes: // it is decided
			case c.changesChain():
				u.moved = append(u.moved, i)
			case err != nil:
				u.errs[i] = err
			}
		}
		return fatalError(ctx, err)
	}
}

// planChanges sets each of changes, in place, from its record and stored item, and its error in u.errs, from
// place from on. Earlier errors there are replaced.
func (u *entityUpdates) planChanges(changes []entityChange, from int, items map[schema.Key]schema.Item) {
	for n := range changes {
		e := u.records[from+n]
		changes[n], u.errs[from+n] = planUpdate(e, items[u.d.Keys.Meta(e.ID)])
	}
}

// refuseLosses sets u.errs for each change that takes money out of force; changes of a chain of parents are
// checked later. It returns false with an error if the sources could not be read.
func (u *entityUpdates) refuseLosses(ctx context.Context, changes []entityChange, from int) (bool, error) {
	stay := slices.Clone(changes)
	for n := range stay {
		stay[n].changes = stay[n].changes && u.errs[from+n] == nil && !stay[n].changesChain()
	}
	refused, err := u.compared.refuseRecords(ctx, u.given[from:from+len(changes)], stay)
	for n := range changes {
		if u.errs[from+n] == nil {
			u.errs[from+n] = refused[u.given[from+n].ID]
		}
	}
	return err == nil, err
}

// proposeChanges returns the transaction of the changes without an error in u.errs that move no entity. It sets
// u.errs, from place from on, for a change that cannot be proposed.
func (u *entityUpdates) proposeChanges(changes []entityChange, from int) (p table.Proposal) {
	for n, c := range changes {
		if u.errs[from+n] != nil || !c.changes || c.changesChain() {
			continue
		}
		one, err := u.proposeUpdate(c, nil)
		u.errs[from+n] = err
		p.Writes, p.Proof = append(p.Writes, one.Writes...), one.Proof
	}
	return p
}

// moveEntities changes the records that get another parent, u.moved, mostMoves at a time, and sets their errors
// in u.errs. It then repeats refused ones as long as one succeeds, because another move may have been in the
// way.
func (u *entityUpdates) moveEntities(ctx context.Context) {
	moves := guard.Group{}
	moves.SetLimit(mostMoves)
	for _, i := range u.moved {
		moves.Go(func() error {
			_, u.errs[i] = u.updateRecord(ctx, u.given[i])
			return nil
		})
	}
	_ = moves.Wait() // each has its error
	for u.moveAgain(ctx) {
		continue
	}
}

// moveAgain tries each move that failed but may succeed now once more, one by one, and sets its error. It
// returns true if one succeeded, and false once the store does not answer.
func (u *entityUpdates) moveAgain(ctx context.Context) (helped bool) {
	for _, i := range u.moved {
		if !mayMoveLater(u.errs[i]) {
			continue
		}
		_, u.errs[i] = u.updateRecord(ctx, u.given[i])
		if _, down := errors.AsType[*fault.UnavailableError](u.errs[i]); down || ctx.Err() != nil {
			return false
		}
		helped = helped || u.errs[i] == nil
	}
	return helped
}

// mayMoveLater reports whether a failed move may succeed after other moves: it made an invalid chain of
// parents, or met concurrent writers. It is true for any *ValidationError, and false for an unconfirmed write.
func mayMoveLater(err error) bool {
	if _, refused := errors.AsType[*fault.ValidationError](err); refused {
		return true
	}
	busy, ok := errors.AsType[*fault.UnavailableError](err)
	return ok && !busy.Unconfirmed
}
