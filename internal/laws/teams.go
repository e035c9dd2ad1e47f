package laws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// enrolTeams creates, in a third of the histories, teams that calls may name as parents, with limits, and two
// plans, and sets h.teams. One team ends the longest chain below which calls are admitted. An error fails the
// test.
func (h *history) enrolTeams(ctx context.Context, r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	h.teams = []string{"team", "club"}
	to := admin.New(h.operator)
	above := ""
	for i := range schema.MaxDepth - 2 {
		id := fmt.Sprint("above-", i)
		require.NoError(h.t, to.Entities.Create(ctx, admin.Entity{ID: id, ParentID: above}))
		above = id
	}
	require.NoError(h.t, to.Entities.Create(ctx, admin.Entity{ID: "team", ParentID: above}))
	require.NoError(h.t, to.Entities.Create(ctx, admin.Entity{ID: "club"}))
	for _, team := range h.teams {
		require.NoError(h.t, setSource(ctx, to.Limits, r, admin.Scope{Entity: team}, h.randomLimits(r)))
	}
	require.NoError(h.t, setSource(ctx, to.Limits, r, admin.Scope{Plan: "pro"}, h.randomLimits(r)))
	require.NoError(h.t, setSource(ctx, to.Limits, r, admin.Scope{Plan: "free"}, h.randomLimits(r)))
}

// chargedEntities returns a new list of the ids of all entities with buckets that calls charge: the chain and
// the teams.
func (h *history) chargedEntities() []string {
	return append(h.entities[:len(h.entities):len(h.entities)], h.teams...)
}

// randomParentAndPlan draws the options WithParent and WithPlan of a call, or none. The parent is sometimes
// missing in the table.
func (w *worker) randomParentAndPlan() (opts []dynalimit.AcquireOption) {
	if w.h.teams == nil {
		return nil
	}
	if i := w.r.IntN(2 * len(w.h.teams)); i < len(w.h.teams) {
		opts = append(opts, dynalimit.WithParent(w.h.teams[i]))
	} else if w.r.IntN(10) == 0 {
		opts = append(opts, dynalimit.WithParent("nobody"))
	}
	if w.h.mode.overrides && w.r.IntN(3) == 0 {
		opts = append(opts, dynalimit.WithPlan([]string{"pro", "free"}[w.r.IntN(2)]))
	}
	return opts
}

// changeTeams sets the limits of a random team, or deletes or creates the record of the leaf. An error fails
// the test.
func (o *operator) changeTeams(ctx context.Context) {
	to, leaf := admin.New(o.h.operator), o.h.entities[0]
	var err error
	switch o.r.IntN(3) {
	case 0:
		err = setSource(ctx, to.Limits, o.r, admin.Scope{Entity: o.h.teams[o.r.IntN(len(o.h.teams))]}, o.h.randomLimits(o.r))
	case 1:
		err = to.Entities.Delete(ctx, leaf)
	default:
		if err = to.Entities.Create(ctx, Link(o.h.entities, 0, o.h.links)); errors.Is(err, admin.ErrExists) {
			err = nil
		}
	}
	require.NoError(o.h.t, err)
}
