package ledger

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// fullCounter is what a counter held when it refused a reservation.
type fullCounter struct {
	used  money.Picos
	until time.Time // remembered; not beyond the first lease that ends
}

// remember keeps for a while which counters refused an operation, and the holds that
// were read for it.
func (b *Board) remember(o *Operation, holds []*Hold, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.liveHolds, b.liveHoldsAt = holds, now
	until := now.Add(DenialFor)
	if len(holds) > 0 && holds[0].freeAt().Before(until) {
		until = holds[0].freeAt()
	}
	for ref, used := range o.fullCounters {
		b.full[ref] = fullCounter{used, until}
	}
}

// Refuses reports whether a remembered counter has no room for a reservation. If it
// returns false, the store has to be asked.
func (b *Board) Refuses(o *Operation, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	o.fullCounters = map[store.Key]money.Picos{}
	for _, d := range o.debits {
		if f, ok := b.full[d.ref()]; d.capped && ok && now.Before(f.until) && f.used.Add(o.Hold.Estimate).Cmp(d.bound) > 0 {
			o.fullCounters[d.ref()] = f.used
		}
	}
	return len(o.fullCounters) > 0
}

// forget drops what is remembered of a counter that a write of this process gave more
// room. The board's lock must be held.
func (b *Board) forget(ref store.Key, change money.Picos) {
	if change.IsNegative() {
		delete(b.full, ref)
	}
}

// RoomAt is when a refused reservation may fit, as far as is known: when the holds in
// its way end, or when the counter's period ends. The latest of its counters decides.
func (b *Board) RoomAt(o *Operation) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	var last time.Time
	for _, d := range o.debits {
		used, ok := o.fullCounters[d.ref()]
		if !ok || !d.capped {
			continue
		}
		at, enough := FreeWhen(b.liveHolds, d.ref(), used.Add(o.Hold.Estimate).Sub(d.bound))
		if !enough || at.After(d.resetAt) {
			at = d.resetAt
		}
		last = calendar.Latest(last, at)
	}
	return last
}

// Holds are the live holds of the scope, as fresh as sums have to be; none if they
// cannot be read.
func (b *Board) Holds(ctx context.Context) []*Hold {
	now := b.l.Now()
	b.mu.Lock()
	live, age := b.liveHolds, now.Sub(b.liveHoldsAt)
	b.mu.Unlock()
	if age >= 0 && age < b.l.Fresh {
		return live
	}
	_, live, err := b.l.readHolds(ctx, b.Scope, now)
	if err != nil {
		return nil
	}
	b.mu.Lock()
	b.liveHolds, b.liveHoldsAt = live, now
	b.mu.Unlock()
	return live
}
