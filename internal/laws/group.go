package laws

import (
	"context"
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
)

// changeGroup moves the resource into the group or out of it, or sets or deletes the group's limits at a random
// source. An error fails the test. h.mu must be held, except at the start.
func (h *history) changeGroup(ctx context.Context, r *rand.Rand) {
	limits := admin.New(h.operator).Limits
	entity := admin.Scope{Entity: h.entities[r.IntN(len(h.entities))], Resource: group}
	everyone := admin.Scope{Everyone: true, Resource: group}
	var err error
	switch r.IntN(6) {
	case 0, 1:
		at := admin.Scope{Everyone: true, Resource: resource}
		var c admin.LimitConfig
		if c, err = limits.GetConfig(ctx, at); err != nil {
			break
		}
		if c.Groups = []string{group}; r.IntN(3) == 0 && len(c.Limits) > 0 {
			c.Groups = nil
		}
		_, err = limits.SetConfig(ctx, at, c)
	case 2:
		err = setSource(ctx, limits, r, entity, h.randomLimits(r))
	case 3:
		err = limits.Delete(ctx, entity)
	default:
		err = setSource(ctx, limits, r, everyone, h.randomLimits(r))
	}
	require.NoError(h.t, err)
}

// eitherBucket returns the resource of a bucket to delete: that of all calls or, half of the time in a history
// with a group, the group.
func (h *history) eitherBucket(r *rand.Rand) string {
	if h.grouped && r.IntN(2) == 0 {
		return group
	}
	return resource
}
