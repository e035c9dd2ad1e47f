package laws

import (
	"context"
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/inside"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// stake is what the calls of one lease did in the store, as the judge sees it. It
// travels in the contexts of the calls.
type stake struct {
	// lots are by bucket, its incarnation and limit.
	lots map[lot]*stakeLot
	// wrong is what its calls did wrong, as far as their own writes show; what a
	// bucket was owed is written for many leases at once, and shows nothing.
	wrong []string
	lease *dynalimit.Lease // nil if the acquire failed
	// into is the stake that this one became part of.
	into *stake
	// inWindow is what was taken in a window of a quota, or of a token bucket, and not given
	// back to it.
	inWindow map[windowLot]int64
}

// windowLot is a window of one limit; "" is that of a token bucket.
type windowLot struct {
	entity        string
	incarnation   int
	limit, window string
	// span says which part of the window it is: the one since so many changes of the limit.
	span    span
	changes int
}

// span is a part of a window.
type span uint8

const (
	inAll  span = iota
	inLife      // since the kind or the unit changed
	inZone      // since the kind, the unit or the zone changed
)

// owed reports whether some of it was owed to a bucket.
func (s *stake) owed() bool {
	return s.lease != nil && anyDegraded(inside.Levels(s.lease))
}

func anyDegraded(levels []inside.Level) bool {
	return slices.ContainsFunc(levels, func(l inside.Level) bool { return l.Degraded })
}

type lot struct {
	entity      string
	incarnation int
	limit       string
}

// stakeLot counts one limit: what was debited for the lease and given back by it;
// told is what of the debits its process learnt of, and left what of that no lease goes by.
// A try that nobody heard of, and that is decided again, may land late: it counts, and is
// nobody's.
type stakeLot struct{ debited, told, left, back int64 }

type stakeKey struct{}

// staked is a context of a new stake.
func staked(ctx context.Context) (context.Context, *stake) {
	s := &stake{lots: map[lot]*stakeLot{}, inWindow: map[windowLot]int64{}}
	return s.on(ctx), s
}

// on is a context whose writes are the stake's.
func (s *stake) on(ctx context.Context) context.Context {
	return context.WithValue(ctx, stakeKey{}, s)
}

func stakeOf(ctx context.Context) *stake {
	s, _ := ctx.Value(stakeKey{}).(*stake)
	return s
}

// wholeStake is the stake that this one is part of.
func (s *stake) wholeStake() *stake {
	for s.into != nil {
		s = s.into
	}
	return s
}

func (s *stake) lot(k lot) *stakeLot {
	if s.lots[k] == nil {
		s.lots[k] = &stakeLot{}
	}
	return s.lots[k]
}

// part is what one call has in a write: signed as an adjust.
type part struct {
	stake   *stake
	amounts []plan.Signed
}

// partOf is what a write carries of an op.
func partOf(o *lane.Op) part {
	return part{stake: stakeOf(o.CallersContext()), amounts: o.Written()}
}

// checkHoldings compares what a lease says it has with what is in the store for it: no less
// than it surely holds, no more than what it knows was, or may have been, debited, and what
// was left and may not have been given back: owed is what was given back to each limit for nobody
// named. What is given back to a limit that was gone for a time may have been dropped.
func (s *stake) checkHoldings(levels []inside.Level, gone map[string]bool, owed map[string]int64) (wrong []string) {
	if anyDegraded(levels) {
		return nil
	}
	net, told, left := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for k, v := range s.lots {
		net[k.entity+"#"+k.limit] += v.debited - v.back
		told[k.entity+"#"+k.limit] += v.told - v.back
		left[k.entity+"#"+k.limit] += v.left
	}
	held, known := heldBy(levels)
	for key, n := range held {
		if net[key] < n {
			wrong = append(wrong, fmt.Sprintf("L3: a lease holds %d of %s, debited for it are %d", n, key, net[key]))
		}
	}
	for key, n := range told {
		if !gone[key] && n > known[key]+left[key]+owed[key] {
			wrong = append(wrong, fmt.Sprintf("L3: debited for a lease are %d of %s, of which it knows %d", n, key, known[key]))
		}
	}
	return wrong
}

// heldBy is what a lease surely has in the store, and what it has or may have, by
// entity and limit.
func heldBy(levels []inside.Level) (held, known map[string]int64) {
	held, known = map[string]int64{}, map[string]int64{}
	for _, level := range levels {
		for _, h := range level.Holdings {
			key := nameOf(level.Lane) + "#" + h.Name
			held[key] += h.Held
			known[key] += h.Used() + h.Vain
		}
	}
	return held, known
}

// countedBy is what a lease took in windows of quotas that have ended, and what it used without
// the bucket, by entity and limit.
func countedBy(levels []inside.Level) map[string]int64 {
	counted := map[string]int64{}
	for _, level := range levels {
		for _, h := range level.Holdings {
			counted[nameOf(level.Lane)+"#"+h.Name] += h.Counted
		}
	}
	return counted
}
