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

// amendLease makes one or more calls of a random lease that no other worker uses: a correction, or its end. One
// in ten times it picks an ended lease, which must not change. It does nothing without such a lease.
func (w *worker) amendLease() {
	ended := w.r.Float64() < .1
	l := w.borrowLease(func(l *grant) bool { return l.ended == ended })
	if l == nil {
		return
	}
	defer w.returnLease(l)
	switch {
	case ended:
		w.changeEnded(l)
	case w.r.Float64() < .1:
		w.endAtOnce(l)
	default:
		w.changeLease(l)
	}
}

// borrowLease marks a random lease that suits and that no worker uses as busy, until returnLease; nil without
// one. Without that mark, calls of one lease would wait for each other while virtual time stands still. It
// takes h.mu.
func (w *worker) borrowLease(suits func(*grant) bool) *grant {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	free := slices.DeleteFunc(slices.Clone(w.h.leases), func(l *grant) bool { return l.busy || !suits(l) })
	if len(free) == 0 {
		return nil
	}
	l := free[w.r.IntN(len(free))]
	l.busy = true
	return l
}

// returnLease ends the reservation of a lease by borrowLease. It takes h.mu.
func (w *worker) returnLease(l *grant) {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	l.busy = false
}

// changeLease makes one random call of an open lease: it adjusts, consumes, settles or rolls back. After an
// unconfirmed adjust it often retries or ends the lease, as a caller would.
func (w *worker) changeLease(l *grant) {
	switch p := w.r.Float64(); {
	case p < .4:
		d := w.randomDeltas(l.Used())
		if err := w.adjustLease(l, d); errors.Is(err, dynalimit.ErrUnconfirmed) && w.r.IntN(2) == 0 {
			w.retryOrEnd(l, d)
		}
	case p < .55 && !l.allows:
		w.consumeMore(l)
	case p < .7:
		w.settleLease(l)
	default:
		w.rollBackLease(l)
	}
}

// retryOrEnd makes the next call after an unconfirmed adjust of a lease by d, as its caller would. It repeats
// the adjust, settles, or (half of the time) rolls back.
func (w *worker) retryOrEnd(l *grant, d dynalimit.Amounts) {
	switch w.r.IntN(4) {
	case 0:
		_ = w.adjustLease(l, d)
	case 1:
		w.settleLease(l)
	default:
		w.rollBackLease(l)
	}
}

// adjustLease adjusts a lease by d under a context that may end, and counts the writes in the lease's stake. It
// returns the error, and records one that must not occur as a violation.
func (w *worker) adjustLease(l *grant, d dynalimit.Amounts) error {
	ctx, cancel := w.callContext()
	defer cancel()
	err := l.Adjust(l.stake.withContext(ctx), d)
	w.checkFailure(l, err)
	return err
}

// consumeMore charges random further amounts to a lease. After a success it adds them to the lease's stake and
// to the granted amounts. It records an error that must not occur.
func (w *worker) consumeMore(l *grant) {
	ctx, cancel := w.callContext()
	defer cancel()
	amounts := w.h.randomAmounts(w.r, l.entity)
	ctx, own := withStake(ctx) // after a failure the lease does not own its amounts
	err := l.Consume(ctx, amounts)
	if err == nil {
		own.into = l.stake
		w.h.mu.Lock()
		w.h.recordTold(l.Lease, amounts)
		w.h.mu.Unlock()
	}
	w.checkFailure(l, err)
}

// settleLease settles a lease to random amounts, with Settle or with SettleSoon. It marks the lease as ended
// after a success, and records an error that must not occur, also a later one of SettleSoon.
func (w *worker) settleLease(l *grant) {
	ctx, cancel := w.callContext()
	defer cancel()
	ctx, actual := l.stake.withContext(ctx), w.randomActuals(l.Used())
	if w.r.IntN(2) == 0 {
		w.recordEnd(l, l.SettleSoon(ctx, actual, func(err error) { w.checkFailure(l, err) }))
		return
	}
	w.recordEnd(l, l.Settle(ctx, actual))
}

// rollBackLease rolls a lease back. It marks the lease as ended after a success, and records an error that must
// not occur.
func (w *worker) rollBackLease(l *grant) {
	ctx, cancel := w.callContext()
	defer cancel()
	err := l.Rollback(l.stake.withContext(ctx))
	w.recordEnd(l, err)
}

// endAtOnce makes two or three concurrent calls of a lease, of random kinds, and waits for them. Most of them
// end the lease, and the laws check that only one end counts. It records errors that must not occur.
func (w *worker) endAtOnce(l *grant) {
	seeds := rand.New(rand.NewPCG(w.r.Uint64(), 4))
	var group sync.WaitGroup
	for range 2 + w.r.IntN(2) {
		own := &worker{w.h, rand.New(rand.NewPCG(seeds.Uint64(), 5))}
		group.Go(func() {
			switch own.r.IntN(4) {
			case 0:
				_ = own.adjustLease(l, own.randomDeltas(l.Used()))
			case 1:
				own.settleLease(l)
			default:
				own.rollBackLease(l)
			}
		})
	}
	group.Wait()
}

// changeEnded makes one random call of an ended lease. It records a violation unless Rollback and Settle return
// nil, and the others ErrLeaseEnded.
func (w *worker) changeEnded(l *grant) {
	ctx, held := l.stake.withContext(w.h.t.Context()), l.Used()
	var err, want error
	switch w.r.IntN(4) {
	case 0:
		err, want = l.Adjust(ctx, dynalimit.Amounts{limitNames[0]: 1}), dynalimit.ErrLeaseEnded
	case 1:
		err, want = l.Consume(ctx, dynalimit.Amounts{limitNames[0]: 1}), dynalimit.ErrLeaseEnded
	case 2:
		err = l.Settle(ctx, w.randomActuals(held))
	default:
		err = l.Rollback(ctx)
	}
	if !errors.Is(err, want) {
		w.h.recordError(fmt.Errorf("a lease that has ended says %w, not %w", err, want))
	}
}

// recordEnd marks the lease as ended if err is nil, under h.mu. It records an error that must not occur as a
// violation.
func (w *worker) recordEnd(l *grant, err error) {
	w.h.mu.Lock()
	l.ended = l.ended || err == nil
	w.h.mu.Unlock()
	w.checkFailure(l, err)
}

// checkFailure records an error that a call of a lease must not return; nil and ErrLeaseEnded are allowed.
func (w *worker) checkFailure(l *grant, err error) {
	if err != nil && !errors.Is(err, dynalimit.ErrLeaseEnded) {
		w.h.checkError(l.owner, err)
	}
}

// randomDeltas draws the amounts of an adjust, for at least one of the held limits. An increase is up to ten
// times the held amount, a decrease at most that amount.
func (w *worker) randomDeltas(held dynalimit.Amounts) dynalimit.Amounts {
	d := dynalimit.Amounts{}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		n := held[name]
		switch w.r.IntN(4) {
		case 0:
			d[name] = 1 + w.r.Int64N(n+1)
		case 1:
			d[name] = -w.r.Int64N(n + 1)
		case 2:
			d[name] = 10 * w.r.Int64N(n+1)
		}
	}
	if len(d) == 0 {
		d[slices.Min(slices.Collect(maps.Keys(held)))] = 1
	}
	return d
}

// randomActuals draws the true cost of a call: 0 to twice the held amount of each limit.
func (w *worker) randomActuals(held dynalimit.Amounts) dynalimit.Amounts {
	a := dynalimit.Amounts{}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		a[name] = w.r.Int64N(2*held[name] + 1)
	}
	return a
}
