package laws

import (
	"context"
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
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
}

// owed reports whether some of it was owed to a bucket.
func (s *stake) owed(in Inside) bool {
	return s.lease != nil && anyDegraded(in.Levels(s.lease))
}

func anyDegraded(levels []Level) bool {
	return slices.ContainsFunc(levels, func(l Level) bool { return l.Degraded })
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
	s := &stake{lots: map[lot]*stakeLot{}}
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

// whole is the stake that this one is part of.
func (s *stake) whole() *stake {
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

// stakes books what a write did to the limits of each call that it carried, and
// checks that none gave back more than was debited for its lease: in this
// incarnation of the bucket.
func (j *judge) stakes(w *ddbmem.Write, entity string, sent *sentWrite, before, after *schema.Image) {
	here := j.incarnations[entity]
	again := slices.Contains(sent.landedIn, here)
	sent.landedIn = append(sent.landedIn, here)
	backs := func(name string) bool { return before != nil && j.appliedBack(sent, name, before, after) > 0 }
	for _, part := range sent.parts() {
		if part.stake == nil {
			j.owe(entity, part.amounts)
			continue
		}
		for _, a := range part.amounts {
			if after.Set.Index(a.Name) < 0 {
				continue
			}
			back, debited := int64(0), int64(0)
			switch {
			case a.Amount < 0 && backs(a.Name):
				back = -a.Amount
			case a.Amount > 0 && !again:
				debited = a.Amount
			}
			j.book(w, part.stake.whole(), lot{entity, here, a.Name}, back, debited, sent)
		}
	}
}

// owe notes what is given back of which it does not show for whom.
func (j *judge) owe(entity string, amounts []plan.Signed) {
	for _, a := range amounts {
		j.oracle.owed[entity+"#"+a.Name] += max(0, -a.Amount)
	}
}

// book counts what a write gave back of, or debited for, a lease.
func (j *judge) book(w *ddbmem.Write, s *stake, k lot, back, debited int64, sent *sentWrite) {
	l := s.lot(k)
	l.back += back
	l.debited += debited
	if sent.granted {
		l.told += debited
	}
	if sent.left {
		l.left += debited
	}
	if l.back > l.debited {
		s.wrong = append(s.wrong, fmt.Sprintf("write %d: L7: a lease gave back %d of %s, and %d were debited for it in this bucket", w.Seq, l.back, k.limit, l.debited))
		j.suspects = append(j.suspects, s)
	}
}

// part is what one call has in a write: signed as an adjust.
type part struct {
	stake   *stake
	amounts []plan.Signed
}

// parts are the calls' parts of a write; a transaction is one call's.
func (w *sentWrite) parts() []part {
	if w.transaction {
		p := part{stake: w.stake}
		for _, n := range w.sums {
			p.amounts = append(p.amounts, plan.Signed{Name: n.Name, Amount: n.Take})
		}
		return []part{p}
	}
	return w.calls
}

// partOf is what a write carries of an op.
func partOf(o *lane.Op) part {
	return part{stake: stakeOf(o.CallersContext()), amounts: o.Written()}
}

// holds compares what a lease says it has with what is in the store for it: no less
// than it surely holds, no more than what it knows was, or may have been, debited, and what
// was left and may not have been given back: owed is what was given back to each limit for nobody
// named. What is given back to a limit that was gone for a time may have been dropped.
func (s *stake) holds(levels []Level, gone map[string]bool, owed map[string]int64) (wrong []string) {
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
func heldBy(levels []Level) (held, known map[string]int64) {
	held, known = map[string]int64{}, map[string]int64{}
	for _, level := range levels {
		for _, h := range level.Holdings() {
			key := level.Entity + "#" + h.Name
			held[key] += h.Held
			known[key] += h.Used() + h.Vain
		}
	}
	return held, known
}
