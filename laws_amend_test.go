package dynalimit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// amend changes or ends a lease; an ended one now and then, which must change
// nothing.
func (h *history) amend(r *rand.Rand) {
	ended := r.Float64() < .1
	l := h.borrow(r, func(l *lawLease) bool { return l.ended == ended })
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
func (h *history) borrow(r *rand.Rand, suits func(*lawLease) bool) *lawLease {
	h.mu.Lock()
	defer h.mu.Unlock()
	free := slices.DeleteFunc(slices.Clone(h.leases), func(l *lawLease) bool { return l.busy || !suits(l) })
	if len(free) == 0 {
		return nil
	}
	l := free[r.IntN(len(free))]
	l.busy = true
	return l
}

func (h *history) returned(l *lawLease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.busy = false
}

// change adjusts, consumes, settles or rolls back. What an adjust left unknown
// is often followed by the call that a caller would make: once more, or an end.
func (h *history) change(r *rand.Rand, l *lawLease) {
	switch p := r.Float64(); {
	case p < .4:
		d := deltas(r, l.Consumed())
		if err := h.adjust(r, l, d); errors.Is(err, ErrUnconfirmed) && r.IntN(2) == 0 {
			h.afterUnknown(r, l, d)
		}
	case p < .55 && l.policy != Allow: // which may admit by what configuration it has
		h.consume(r, l)
	case p < .7:
		h.settle(r, l)
	default:
		h.rollback(r, l)
	}
}

func (h *history) afterUnknown(r *rand.Rand, l *lawLease, d Amounts) {
	switch r.IntN(4) {
	case 0:
		_ = h.adjust(r, l, d)
	case 1:
		h.settle(r, l)
	default:
		h.rollback(r, l)
	}
}

func (h *history) adjust(r *rand.Rand, l *lawLease, d Amounts) error {
	ctx, cancel := h.context(r)
	defer cancel()
	err := l.Adjust(l.stake.on(ctx), d)
	h.forgive(l, err)
	return err
}

func (h *history) consume(r *rand.Rand, l *lawLease) {
	ctx, cancel := h.context(r)
	defer cancel()
	amounts := h.amounts(r, l.request.entity)
	ctx, own := staked(ctx) // what a failed one leaves is not the lease's
	err := l.Consume(ctx, amounts)
	if err == nil {
		own.into = l.stake
		h.mu.Lock()
		h.grantedTo(l.levels, amounts)
		h.mu.Unlock()
	}
	h.forgive(l, err)
}

func (h *history) settle(r *rand.Rand, l *lawLease) {
	ctx, cancel := h.context(r)
	defer cancel()
	err := l.Settle(l.stake.on(ctx), actuals(r, l.Consumed()))
	h.ended(l, err)
}

func (h *history) rollback(r *rand.Rand, l *lawLease) {
	ctx, cancel := h.context(r)
	defer cancel()
	err := l.Rollback(l.stake.on(ctx))
	h.ended(l, err)
}

// endAtOnce ends a lease several times at the same time, in different ways: one
// of them counts.
func (h *history) endAtOnce(r *rand.Rand, l *lawLease) {
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
func (h *history) changeEnded(r *rand.Rand, l *lawLease) {
	ctx, held := l.stake.on(h.t.Context()), l.Consumed()
	var err, want error
	switch r.IntN(4) {
	case 0:
		err, want = l.Adjust(ctx, Amounts{lawNames[0]: 1}), ErrLeaseEnded
	case 1:
		err, want = l.Consume(ctx, Amounts{lawNames[0]: 1}), ErrLeaseEnded
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
func (h *history) ended(l *lawLease, err error) {
	h.mu.Lock()
	l.ended = l.ended || err == nil
	h.mu.Unlock()
	h.forgive(l, err)
}

// forgive notes what a call of a lease may not fail with.
func (h *history) forgive(l *lawLease, err error) {
	if err != nil && !errors.Is(err, ErrLeaseEnded) {
		h.tolerate(l.owner, err)
	}
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
