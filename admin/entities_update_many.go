package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// mostMoves is how many entities get another parent at once.
const mostMoves = 8

// UpdateMany is Entities.Update for many entities, each once: 49 in each transaction, with
// their events, so that ten thousand take seconds. Those that get another parent are changed
// one by one, 8 at once, for each move looks at its ancestors; the others come first.
//
// It returns an error for each entity, nil for one that is as it was given, in their order;
// see Entities.Update. Its Version is then one above that which was given, unless that was
// stored already. If the input is bad it returns a single *ValidationError, and nothing was
// written. Once the table does not serve, or ctx has ended, the rest fails with that error.
func (n Entities) UpdateMany(ctx context.Context, entities []Entity) ([]error, error) {
	u := &entityUpdates{Entities: n, records: make([]schema.EntityRecord, len(entities)), errs: make([]error, len(entities))}
	changed := make(map[string]bool, len(entities))
	for i, e := range entities {
		err := checkUpdate(e)
		if err == nil && changed[e.ID] {
			err = invalid("entity.ID", "%q stands twice; give each entity once", e.ID)
		}
		if err != nil {
			return nil, within(fmt.Sprintf("entities[%d].", i), err)
		}
		changed[e.ID], u.records[i] = true, recordOf(e)
	}
	if err := n.d.mayChange(ctx); err != nil {
		return nil, err
	}
	defer n.d.Told.Entities(changed)
	for from := 0; from < len(entities); {
		to := from + len(window(u.records[from:], func(e schema.EntityRecord) (parts, metadata int) { return 2, len(e.Metadata) }))
		if down := u.together(ctx, from, to); down != nil {
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
	u.move(ctx)
	return u.errs, nil
}

// entityUpdates are many changes of records under way.
type entityUpdates struct {
	Entities
	records []schema.EntityRecord
	errs    []error
	// moved are those that get another parent, by their places.
	moved []int
}

// together changes some records in one transaction, but for those that move. Its error is
// one that ends all.
func (u *entityUpdates) together(ctx context.Context, from, to int) error {
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
			again, err = u.d.Table.Try(ctx, op, attempt, u.propose(changes, from, items))
		}
		if again {
			continue
		}
		for n, c := range changes {
			switch i := from + n; {
			case !read:
				u.errs[i] = err
			case u.errs[i] != nil || !c.changes: // it is decided
			case c.changesParent():
				u.moved = append(u.moved, i)
			case err != nil:
				u.errs[i] = err
			}
		}
		return stops(ctx, err)
	}
}

// propose is the transaction of those changes that are not refused and do not move.
func (u *entityUpdates) propose(changes []entityChange, from int, items map[schema.Key]schema.Item) (p table.Proposal) {
	for n := range changes {
		e := u.records[from+n]
		c, err := planUpdate(e, items[u.d.Keys.Meta(e.ID)])
		if err == nil && c.changes && !c.changesParent() {
			var one table.Proposal
			one, err = u.proposeUpdate(c, nil)
			p.Writes, p.Proof = append(p.Writes, one.Writes...), one.Proof
		}
		changes[n], u.errs[from+n] = c, err
	}
	return p
}

// move changes the records that get another parent, several at once. What is refused because
// of its new ancestors, or because others were in the way, is tried again, one by one in the
// order of the records, for as long as that helps: another move may have been in its way.
func (u *entityUpdates) move(ctx context.Context) {
	moves := guard.Group{}
	moves.SetLimit(mostMoves)
	for _, i := range u.moved {
		moves.Go(func() error {
			_, u.errs[i] = u.update(ctx, u.records[i])
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
		_, u.errs[i] = u.update(ctx, u.records[i])
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
