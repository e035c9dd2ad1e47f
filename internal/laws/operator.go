package laws

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
)

// operate is what an operator, or time, does to the table.
func (h *history) operate(r *rand.Rand, p float64) {
	switch {
	case p < .03:
		h.reconfigure(r)
	case p < .045:
		elapse(time.Duration(r.Int64N(20*3600)) * time.Second)
		h.db.ExpireNow()
	default:
		h.erase(r)
	}
}

// disturb is what goes wrong with processes and the store.
func (h *history) disturb(r *rand.Rand, p float64) {
	switch {
	case p < .07:
		h.crash(r)
	case p < .08:
		h.throttle(r)
	default:
		h.silence(r)
	}
}

// reconfigure changes the limits at some level.
func (h *history) reconfigure(r *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, limits := quietly(h.t.Context()), h.limits(r)
	entity := h.entities[r.IntN(len(h.entities))]
	var err error
	switch r.IntN(8) {
	case 0:
		err = admin.New(h.operator).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: resource}, limits)
	case 1:
		err = admin.New(h.operator).Limits.Set(ctx, admin.Scope{Entity: entity}, limits)
	case 2:
		err = admin.New(h.operator).Limits.Set(ctx, admin.Scope{Entity: entity, Resource: resource}, limits)
	case 3:
		err = admin.New(h.operator).Limits.Delete(ctx, admin.Scope{Everyone: true, Resource: resource})
	case 4:
		err = admin.New(h.operator).Limits.Delete(ctx, admin.Scope{Entity: entity})
	case 5:
		err = admin.New(h.operator).Limits.Delete(ctx, admin.Scope{Entity: entity, Resource: resource})
	default:
		err = admin.New(h.operator).Limits.Set(ctx, admin.Scope{Everyone: true}, limits)
	}
	require.NoError(h.t, err)
	h.published(ctx)
}

// crash ends a limiter with its leases, in the middle of whatever it does.
func (h *history) crash(r *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := r.IntN(len(h.members))
	m := h.members[i]
	m.dead.Store(true)
	h.lanes(m).End() // nothing of it goes on
	go m.limiter.Close(h.ctx)
	h.retired = append(h.retired, m)
	h.leases = slices.DeleteFunc(h.leases, func(l *grant) bool { return l.owner == m })
	h.members[i] = h.member()
}

// release lets some late request land.
func (h *history) release(r *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.late) > 0 && r.Float64() < .3 {
		i := r.IntN(len(h.late))
		close(h.late[i])
		h.late = slices.Delete(h.late, i, i+1)
	}
}

// erase deletes an entity with its limits and buckets, whatever they owe and
// whoever holds leases, and makes it anew; or a bucket alone, of a parent.
func (h *history) erase(r *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, i := quietly(h.t.Context()), r.IntN(len(h.entities))
	if i > 0 || r.IntN(2) == 0 {
		_, err := h.db.Client().DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: new(table), Key: h.lanes(h.members[0]).Keys.Bucket(h.entities[i], resource).Attributes(),
		})
		require.NoError(h.t, err)
		return
	}
	require.NoError(h.t, admin.New(h.operator).Entities.Delete(ctx, h.entities[0]))
	require.NoError(h.t, admin.New(h.operator).Entities.Create(ctx, h.entity(0)))
	h.published(ctx)
}

// throttle lets a bucket's partition take none, or a few, of the writes and reads that
// come for a while.
func (h *history) throttle(r *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &partition{until: time.Now().Add(time.Duration(r.Int64N(20_000)) * time.Millisecond), at: time.Now()}
	if p.perSecond = float64(r.IntN(6)); r.IntN(2) == 0 {
		p.perSecond = 0
	}
	h.throttled[h.entities[r.IntN(len(h.entities))]] = p
}

// silence lets the store answer nothing for a while.
func (h *history) silence(r *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent = time.Now().Add(time.Duration(r.Int64N(40_000)) * time.Millisecond)
}
