package admin

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// entityChange is a change of a record that was read.
type entityChange struct {
	item         schema.Item
	stored, next schema.EntityRecord
	changes      bool
}

// moves reports whether the entity gets another parent.
func (c entityChange) moves() bool { return c.next.ParentID != c.stored.ParentID }

// planUpdate is what makes e of a record, if that is of e's version. It fails with an
// *EntityConflict, and as Entity does.
func planUpdate(e schema.EntityRecord, item schema.Item) (entityChange, error) {
	stored, err := entityIn(item, e.ID)
	if err != nil {
		return entityChange{}, err
	}
	if stored.Version != e.Version || !e.CreatedAt.IsZero() && !e.CreatedAt.Equal(stored.CreatedAt) {
		return entityChange{}, &EntityConflict{stored}
	}
	c := entityChange{item: item, stored: stored, next: e}
	c.next.CreatedAt = stored.CreatedAt
	if c.changes = !sameEntity(e, stored) || !schema.Listed(item); c.changes {
		c.next.Version++
	}
	return c, nil
}

func sameEntity(x, y schema.EntityRecord) bool {
	return x.Name == y.Name && x.ParentID == y.ParentID && x.Cascade == y.Cascade && x.Plan == y.Plan && x.ManagedBy == y.ManagedBy &&
		bytes.Equal(x.Metadata, y.Metadata)
}

// Update replaces what an entity's record says, if the record is of e's version. It
// returns the record as it is then. It fails with an *EntityConflict.
func (a Entities) Update(ctx context.Context, by string, e schema.EntityRecord) (schema.EntityRecord, error) {
	const op = "update the entity"
	var c entityChange
	err := a.Table.Change(ctx, op, func() (table.Proposal, error) {
		item, err := a.Table.Get(ctx, op, a.Keys.Meta(e.ID))
		if err != nil {
			return table.Proposal{}, err
		}
		if c, err = planUpdate(e, item); err != nil || !c.changes {
			return table.Proposal{}, err
		}
		var above []ancestor
		if c.moves() {
			if above, err = a.ancestors(ctx, op, e.ID, e.ParentID); err != nil {
				return table.Proposal{}, err
			}
		}
		return a.proposeUpdate(by, c, above)
	})
	if err != nil {
		return schema.EntityRecord{}, err
	}
	return c.next, nil
}

// proposeUpdate is the transaction that replaces a record, below ancestors if it moves.
func (a Entities) proposeUpdate(by string, c entityChange, above []ancestor) (table.Proposal, error) {
	d := Deed{
		By: by, Action: EntityUpdated, Target: c.next.ID, Before: entityFields(c.stored), After: entityFields(c.next),
		Was: c.item, Is: c.next.Item(a.Keys, c.item),
	}
	return a.propose(d, slices.Insert(a.adopt(above), 0, a.Table.Put(d.Is, schema.EntityUnchanged(c.item)))...)
}

// mostMoves is how many entities get another parent at once.
const mostMoves = 8

// UpdateMany is UpdateEntity for many records, each once: as many as fit in each
// transaction, but for those that get another parent, whose ancestors are looked at for each
// alone. It returns an error for each, nil for one that was changed. Once the store does not
// serve, or ctx has ended, the rest is left undone with that error.
func (a Entities) UpdateMany(ctx context.Context, by string, records []schema.EntityRecord) []error {
	u := &entityUpdates{Desk: a.Desk, of: a, by: by, records: records, errs: make([]error, len(records))}
	for from := 0; from < len(records); {
		to := from + len(window(records[from:], func(e schema.EntityRecord) (parts, metadata int) { return 2, len(e.Metadata) }))
		if down := u.together(ctx, from, to); down != nil {
			for i := to; i < len(records); i++ {
				u.errs[i] = down
			}
			for _, i := range u.moved {
				u.errs[i] = down
			}
			return u.errs
		}
		from = to
	}
	u.move(ctx)
	return u.errs
}

// entityUpdates are many changes of records under way.
type entityUpdates struct {
	*Desk
	of      Entities
	by      string
	records []schema.EntityRecord
	errs    []error
	// moved are those that get another parent, by their places.
	moved []int
}

// together changes some records in one transaction, but for those that move. Its error is
// one that ends all.
func (u *entityUpdates) together(ctx context.Context, from, to int) error {
	const op = "update entities"
	var w updateWindow
	failed := u.Table.Change(ctx, op, func() (_ table.Proposal, err error) {
		w = updateWindow{}
		keys := make([]schema.Key, 0, to-from)
		for i := from; i < to; i++ {
			keys = append(keys, u.Keys.Meta(u.records[i].ID))
			u.errs[i] = nil
		}
		items, err := u.Table.BatchGet(ctx, op, keys)
		for i := from; i < to; i++ {
			if err != nil {
				w.planned = append(w.planned, i)
			} else {
				u.errs[i] = u.plan(&w, i, items[keys[i-from]])
			}
		}
		return w.p, err
	})
	u.moved = append(u.moved, w.moved...)
	if failed == nil {
		return nil
	}
	for _, i := range w.planned {
		u.errs[i] = failed
	}
	return u.of.configs.stops(ctx, failed)
}

// updateWindow is a proposal of changes of records, with the places of those that it makes and
// of those that move, which it does not make.
type updateWindow struct {
	p              table.Proposal
	planned, moved []int
}

// plan adds the change of a record to a proposal, unless it moves.
func (u *entityUpdates) plan(w *updateWindow, i int, item schema.Item) error {
	c, err := planUpdate(u.records[i], item)
	if err != nil || !c.changes {
		return err
	}
	if c.moves() {
		w.moved = append(w.moved, i)
		return nil
	}
	one, err := u.of.proposeUpdate(u.by, c, nil)
	if err != nil {
		return err
	}
	w.planned = append(w.planned, i)
	w.p.Writes, w.p.Proof = append(w.p.Writes, one.Writes...), one.Proof
	return nil
}

// move changes the records that get another parent, several at once. What is refused because
// of its new ancestors, or because others were in the way, is tried again, one by one in the
// order of the records, for as long as that helps: another move may have been in its way.
func (u *entityUpdates) move(ctx context.Context) {
	moves := errgroup.Group{}
	moves.SetLimit(mostMoves)
	for _, i := range u.moved {
		moves.Go(func() error {
			u.update(ctx, i)
			return nil
		})
	}
	_ = moves.Wait() // each has its error
	for u.moveAgain(ctx) {
		continue
	}
}

// moveAgain tries again what was refused. It reports whether that helped; not once the
// store does not serve.
func (u *entityUpdates) moveAgain(ctx context.Context) (helped bool) {
	for _, i := range u.moved {
		if !mayHelp(u.errs[i]) {
			continue
		}
		u.update(ctx, i)
		if _, down := errors.AsType[*fault.UnavailableError](u.errs[i]); down || ctx.Err() != nil {
			return false
		}
		helped = helped || u.errs[i] == nil
	}
	return helped
}

// mayHelp reports whether a move that failed may be made once others are.
func mayHelp(err error) bool {
	if _, refused := errors.AsType[*fault.ValidationError](err); refused {
		return true
	}
	busy, ok := errors.AsType[*fault.UnavailableError](err)
	return ok && !busy.Unconfirmed
}

// update changes one record.
func (u *entityUpdates) update(ctx context.Context, i int) {
	_, u.errs[i] = u.of.Update(ctx, u.by, u.records[i])
}
