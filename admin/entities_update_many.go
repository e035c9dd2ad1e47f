package admin

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/fault"
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
	var w updateWindow
	var failed error
	for attempt, again := 1, true; again; attempt++ {
		w = updateWindow{}
		var items map[schema.Key]schema.Item
		if items, failed = u.d.Table.BatchGet(ctx, op, keys); failed != nil {
			for i := from; i < to; i++ {
				w.planned = append(w.planned, i)
			}
			break
		}
		for i := from; i < to; i++ {
			u.errs[i] = u.plan(&w, i, items[keys[i-from]])
		}
		again, failed = u.d.Table.Try(ctx, op, attempt, w.p)
	}
	u.moved = append(u.moved, w.moved...)
	if failed == nil {
		return nil
	}
	for _, i := range w.planned {
		u.errs[i] = failed
	}
	return stops(ctx, failed)
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
	one, err := u.proposeUpdate(c, nil)
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
