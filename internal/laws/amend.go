package laws

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit"
)

// amend changes or ends a lease; an ended one now and then, which must change
// nothing.
func (h *history) amend(r *rand.Rand) {
	ended := r.Float64() < .1
	l := h.borrow(r, func(l *grant) bool { return l.ended == ended })
	if l == nil {
		return
	}
	defer h.returned(l)
	switch {
	case ended:
		h.changeEnded(r, l)
	case r.Float64() < .1:
		h.endAtOnce(r, l)
	default:
		h.change(r, l)
	}
}

// borrow picks a lease that nobody uses: a lease's calls wait for one another,
// and not in a way that lets virtual time pass.
func (h *history) borrow(r *rand.Rand, suits func(*grant) bool) *grant {
	h.mu.Lock()
	defer h.mu.Unlock()
	free := slices.DeleteFunc(slices.Clone(h.leases), func(l *grant) bool { return l.busy || !suits(l) })
	if len(free) == 0 {
		return nil
	}
	l := free[r.IntN(len(free))]
	l.busy = true
	return l
}

func (h *history) returned(l *grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.busy = false
}

// change adjusts, consumes, settles or rolls back. What an adjust left unknown
// is often followed by the call that a caller would make: once more, or an end.
func (h *history) change(r *rand.Rand, l *grant) {
	switch p := r.Float64(); {
	case p < .4:
		d := deltas(r, l.Consumed())
		if err := h.adjust(r, l, d); errors.Is(err, dynalimit.ErrUnconfirmed) && r.IntN(2) == 0 {
			h.afterUnknown(r, l, d)
		}
	case p < .55 && !l.allows:
		h.consume(r, l)
	case p < .7:
		h.settle(r, l)
	default:
		h.rollback(r, l)
	}
}

func (h *history) afterUnknown(r *rand.Rand, l *grant, d dynalimit.Amounts) {
	switch r.IntN(4) {
	case 0:
		_ = h.adjust(r, l, d)
	case 1:
		h.settle(r, l)
	default:
		h.rollback(r, l)
	}
}

func (h *history) adjust(r *rand.Rand, l *grant, d dynalimit.Amounts) error {
	ctx, cancel := h.context(r)
	defer cancel()
	err := l.Adjust(l.stake.on(ctx), d)
	h.forgive(l, err)
	return err
}

func (h *history) consume(r *rand.Rand, l *grant) {
	ctx, cancel := h.context(r)
	defer cancel()
	amounts := h.amounts(r, l.entity)
	ctx, own := staked(ctx) // what a failed one leaves is not the lease's
	err := l.Consume(ctx, amounts)
	if err == nil {
		own.into = l.stake
		h.mu.Lock()
		h.grantedTo(l.Lease, amounts)
		h.mu.Unlock()
	}
	h.forgive(l, err)
}

func (h *history) settle(r *rand.Rand, l *grant) {
	ctx, cancel := h.context(r)
	defer cancel()
	err := l.Settle(l.stake.on(ctx), actuals(r, l.Consumed()))
	h.ended(l, err)
}

func (h *history) rollback(r *rand.Rand, l *grant) {
	ctx, cancel := h.context(r)
	defer cancel()
	err := l.Rollback(l.stake.on(ctx))
	h.ended(l, err)
}

// endAtOnce ends a lease several times at the same time, in different ways: one
// of them counts.
func (h *history) endAtOnce(r *rand.Rand, l *grant) {
	seeds := rand.New(rand.NewPCG(r.Uint64(), 4))
	var group sync.WaitGroup
	for range 2 + r.IntN(2) {
		own := rand.New(rand.NewPCG(seeds.Uint64(), 5))
		group.Go(func() {
			switch own.IntN(4) {
			case 0:
				_ = h.adjust(own, l, deltas(own, l.Consumed()))
			case 1:
				h.settle(own, l)
			default:
				h.rollback(own, l)
			}
		})
	}
	group.Wait()
}

// changeEnded calls a lease that has ended: Rollback and Settle do nothing, the
// others say so.
func (h *history) changeEnded(r *rand.Rand, l *grant) {
	ctx, held := l.stake.on(h.t.Context()), l.Consumed()
	var err, want error
	switch r.IntN(4) {
	case 0:
		err, want = l.Adjust(ctx, dynalimit.Amounts{limitNames[0]: 1}), dynalimit.ErrLeaseEnded
	case 1:
		err, want = l.Consume(ctx, dynalimit.Amounts{limitNames[0]: 1}), dynalimit.ErrLeaseEnded
	case 2:
		err = l.Settle(ctx, actuals(r, held))
	default:
		err = l.Rollback(ctx)
	}
	if !errors.Is(err, want) {
		h.unexpected(fmt.Errorf("a lease that has ended says %w, not %w", err, want))
	}
}

// ended notes how an end went.
func (h *history) ended(l *grant, err error) {
	h.mu.Lock()
	l.ended = l.ended || err == nil
	h.mu.Unlock()
	h.forgive(l, err)
}

// forgive notes what a call of a lease may not fail with.
func (h *history) forgive(l *grant, err error) {
	if err != nil && !errors.Is(err, dynalimit.ErrLeaseEnded) {
		h.tolerate(l.owner, err)
	}
}

// deltas adjusts up or down, by at most what is held.
func deltas(r *rand.Rand, held dynalimit.Amounts) dynalimit.Amounts {
	d := dynalimit.Amounts{}
	for _, name := range slices.Sorted(maps.Keys(held)) {
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
		d[slices.Min(slices.Collect(maps.Keys(held)))] = 1
	}
	return d
}

func actuals(r *rand.Rand, held dynalimit.Amounts) dynalimit.Amounts {
	a := dynalimit.Amounts{}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		a[name] = r.Int64N(2*held[name] + 1)
	}
	return a
}
