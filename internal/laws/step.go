package laws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
)

// step is one thing that a worker of a history does.
func (h *history) step(r *rand.Rand) {
	if r.Float64() < .5 {
		pauses := []int64{0, 0, 1, 3, 20, 200, 900, 1100, r.Int64N(120_000)}
		elapse(time.Duration(pauses[r.IntN(len(pauses))]) * time.Millisecond)
	}
	if h.mode.ahead && r.Float64() < .15 {
		h.stream(r, h.pick(r))
		return
	}
	switch p := r.Float64(); {
	case p < .055:
		h.operate(r, p)
	case p < .085 && h.mode.faults:
		h.disturb(r, p)
	case p < .55:
		h.acquire(r, h.pick(r), 1)
	case p < .65:
		h.acquire(r, h.pick(r), 2+r.IntN(5))
	case p > .97:
		h.fill(r)
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

// amounts asks for some of an entity's limits.
func (h *history) amounts(r *rand.Rand, entity string) dynalimit.Amounts {
	h.mu.Lock()
	defer h.mu.Unlock()
	limits, a := h.config[entity], dynalimit.Amounts{}
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
	ctx := h.ctx
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
		opts, allows := h.options(r, amounts)
		ctx, cancel := h.context(r)
		call := m.limiter.Acquire
		if h.waits && r.Float64() < .4 {
			call = m.limiter.Wait
			ctx, cancel = h.patience(ctx, cancel, r)
		}
		ctx, own := staked(ctx)
		group.Go(func() {
			defer cancel()
			lease, err := call(ctx, entity, resource, amounts, opts...)
			if err != nil {
				h.hasty(ctx, err)
				h.tolerate(m, err)
				return
			}
			h.granted(&grant{Lease: lease, owner: m, stake: own, entity: entity, allows: allows}, amounts)
		})
	}
	group.Wait()
}

// options are a call's own; allows says that one of them is the policy Allow.
func (h *history) options(r *rand.Rand, amounts dynalimit.Amounts) (opts []dynalimit.AcquireOption, allows bool) {
	if h.mode.overrides && r.Float64() < .1 {
		for name := range amounts {
			opts = append(opts, dynalimit.WithLimits(newLimit(r, name)))
			break
		}
	}
	if allows = h.mode.faults && r.Float64() < .2; allows {
		opts = append(opts, dynalimit.WithOnUnavailable(dynalimit.Allow))
	}
	if r.Float64() < .2 {
		opts = append(opts, dynalimit.WithCascade(h.cascade(r)))
	}
	return opts, allows
}

// granted notes a lease, and who holds it unless its process has died.
func (h *history) granted(g *grant, amounts dynalimit.Amounts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grantedTo(g.Lease, amounts)
	g.stake.lease = g.Lease
	if !g.owner.dead.Load() {
		h.leases = append(h.leases, g)
	}
}

// waiting marks the context of a Wait.
type waiting struct{}

// patience bounds how long a call waits.
func (h *history) patience(ctx context.Context, cancel context.CancelFunc, r *rand.Rand) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeout(context.WithValue(ctx, waiting{}, true), time.Duration(r.Int64N(60_000))*time.Millisecond)
	return ctx, func() {
		stop()
		cancel()
	}
}

// hasty notes a wait that gave up although its turn would have come in time.
func (h *history) hasty(ctx context.Context, err error) {
	var denied *dynalimit.LimitExceededError
	deadline, waits := ctx.Deadline()
	if !waits || !errors.As(err, &denied) || ctx.Value(waiting{}) == nil || errors.Is(err, dynalimit.ErrUnconfirmed) {
		return
	}
	if left := time.Until(deadline); denied.RetryAfter <= left {
		h.unexpected(fmt.Errorf("L6: a wait gave up %v before its deadline: %w; retry after %v", left, err, denied.RetryAfter))
	}
}

// tolerate notes an error that this history cannot explain.
func (h *history) tolerate(m *member, err error) {
	var wrong *dynalimit.ValidationError
	var denied *dynalimit.LimitExceededError
	if errors.As(err, &denied) && (denied.RetryAfter <= 0 || !denied.Primary().Exceeded) {
		h.unexpected(fmt.Errorf("L6: a denial for no limit: %w; %+v", err, denied.Statuses))
	}
	switch {
	case errors.Is(err, dynalimit.ErrLimitExceeded), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &wrong): // named by a configuration the limiter does not have, or not any more
	case h.mode.faults && (errors.Is(err, dynalimit.ErrUnavailable) || errors.Is(err, dynalimit.ErrContended) || errors.Is(err, dynalimit.ErrUnconfirmed)):
	case m.dead.Load():
	default:
		h.unexpected(err)
	}
}
