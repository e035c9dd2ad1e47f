package dynalimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// step is one thing that a worker of a history does.
func (h *history) step(r *rand.Rand) {
	if r.Float64() < .5 {
		pauses := []int64{0, 0, 1, 3, 20, 200, 900, 1100, r.Int64N(120_000)}
		elapse(time.Duration(pauses[r.IntN(len(pauses))]) * time.Millisecond)
	}
	switch p := r.Float64(); {
	case p < .03:
		h.reconfigure(r)
	case p < .05:
		elapse(time.Duration(r.Int64N(20*3600)) * time.Second)
		h.db.ExpireNow()
	case p < .07 && h.mode.faults:
		h.crash(r)
	case p < .55:
		h.acquire(r, h.pick(r), 1)
	case p < .65:
		h.acquire(r, h.pick(r), 2+r.IntN(5))
	default:
		h.amend(r)
	}
	h.release(r)
}

func (h *history) pick(r *rand.Rand) *member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members[r.IntN(len(h.members))]
}

// crash ends a limiter with its leases, in the middle of whatever it does.
func (h *history) crash(r *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := r.IntN(len(h.members))
	m := h.members[i]
	m.dead.Store(true)
	h.retired = append(h.retired, m)
	h.leases = slices.DeleteFunc(h.leases, func(l *lawLease) bool { return l.owner == m })
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

// amounts asks for some of an entity's limits.
func (h *history) amounts(r *rand.Rand, entity string) Amounts {
	h.mu.Lock()
	defer h.mu.Unlock()
	limits, a := h.config[entity], Amounts{}
	for _, l := range limits {
		if r.Float64() < .7 {
			choices := []int64{1, l.Burst / 10, l.Burst / 3, l.Burst, l.Burst + 1}
			a[l.Name] = choices[r.IntN(len(choices)-1+r.IntN(50)/49)]
		}
	}
	if len(a) == 0 {
		a[limits[0].Name] = 1
	}
	return a
}

// context is one that may end at any time.
func (h *history) context(r *rand.Rand) (context.Context, context.CancelFunc) {
	ctx := h.t.Context()
	if r.Float64() >= .1 {
		return ctx, func() {}
	}
	if h.mode.latency == 0 && !h.mode.faults {
		ctx, cancel := context.WithCancel(ctx)
		go cancel()
		return ctx, cancel
	}
	return context.WithTimeout(ctx, time.Duration(r.Int64N(1+4*h.mode.latency))*time.Millisecond)
}

// acquire takes with so many callers at once.
func (h *history) acquire(r *rand.Rand, m *member, callers int) {
	entity := h.entities[r.IntN(r.IntN(len(h.entities))+1)]
	var group sync.WaitGroup
	for range callers {
		amounts := h.amounts(r, entity)
		var opts []AcquireOption
		if h.mode.overrides && r.Float64() < .1 {
			for name := range amounts {
				opts = append(opts, WithLimits(lawLimit(r, name)))
				break
			}
		}
		if h.mode.faults && r.Float64() < .2 {
			opts = append(opts, WithOnUnavailable(Allow))
		}
		ctx, cancel := h.context(r)
		group.Go(func() {
			defer cancel()
			lease, err := m.limiter.Acquire(ctx, entity, lawResource, amounts, opts...)
			if err != nil {
				h.tolerate(m, err)
				return
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.grantedTo(lease.levels, amounts)
			if m.dead.Load() {
				return
			}
			h.leases = append(h.leases, &lawLease{Lease: lease, owner: m})
		})
	}
	group.Wait()
}

// tolerate notes an error that this history cannot explain.
func (h *history) tolerate(m *member, err error) {
	var wrong *ValidationError
	switch {
	case errors.Is(err, ErrLimitExceeded), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &wrong): // named by a configuration the limiter does not have, or not any more
	case h.mode.faults && (errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnconfirmed)):
	case m.dead.Load():
	default:
		h.unexpected(err)
	}
}

// amend changes or ends a lease.
func (h *history) amend(r *rand.Rand) {
	h.mu.Lock()
	live := slices.DeleteFunc(slices.Clone(h.leases), func(l *lawLease) bool { return l.ended || l.busy })
	if len(live) == 0 {
		h.mu.Unlock()
		return
	}
	l := live[r.IntN(len(live))]
	l.busy = true // a lease's calls wait for one another, and not in a way that lets virtual time pass
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		l.busy = false
	}()
	ctx, cancel := h.context(r)
	defer cancel()
	held := l.Consumed()
	var err error
	switch p := r.Float64(); {
	case p < .4:
		err = l.Adjust(ctx, deltas(r, held))
	case p < .55 && l.policy != Allow: // which may admit by what configuration it has
		amounts := h.amounts(r, l.request.entity)
		if err = l.Consume(ctx, amounts); err == nil {
			h.mu.Lock()
			h.grantedTo(l.levels, amounts)
			h.mu.Unlock()
		}
	case p < .7:
		err = l.Settle(ctx, actuals(r, held))
		l.end(h, err)
	default:
		err = l.Rollback(ctx)
		l.end(h, err)
	}
	if err != nil && !errors.Is(err, ErrLeaseEnded) {
		h.tolerate(l.owner, err)
	}
}

func (l *lawLease) end(h *history, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.ended = l.ended || err == nil
}

// deltas adjusts up or down, by at most what is held.
func deltas(r *rand.Rand, held Amounts) Amounts {
	d := Amounts{}
	for _, name := range held.names() {
		n := held[name]
		switch r.IntN(4) {
		case 0:
			d[name] = 1 + r.Int64N(n+1)
		case 1:
			d[name] = -r.Int64N(n + 1)
		case 2:
			d[name] = 10 * r.Int64N(n+1)
		}
	}
	if len(d) == 0 {
		d[held.names()[0]] = 1
	}
	return d
}

func actuals(r *rand.Rand, held Amounts) Amounts {
	a := Amounts{}
	for _, name := range held.names() {
		a[name] = r.Int64N(2*held[name] + 1)
	}
	return a
}
