package lane

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// laterAfter is the number of refusals after which an adjust is written so that it commutes
// with claims.
const laterAfter = 2

// choices are what a write may carry and what limits it.
type choices struct {
	adjusts, takes []*Op
	// sums are those of the adjusts.
	sums plan.Rows
	// heads are the waiters at the head of the bucket's line.
	heads []head
	// shareHalvings is how often the share that one write takes was halved.
	shareHalvings int
	// mayHousekeep allows a claim whose only reason is the age of the refill instant.
	mayHousekeep bool
}

// decision is what a write carries, and what becomes of the other takes.
type decision struct {
	// carried are the adjusts and the admitted takes. sums are their amounts together.
	carried, admitted []*Op
	sums              plan.Rows
	// waiters are those whose takes are admitted.
	waiters []*Waiter
	// left are the takes that do not fit. deferred are takes that fit, but are left for
	// the next write because other processes wrote first of late.
	left     []excluded
	deferred []*Op
	// dropped are takes that would debit scarce tokens ahead of calls.
	dropped []*Op
	// down is what adjusts charge beyond the deepest debt: it goes to the counters alone.
	down []plan.Signed
	// promised is what was left to waiters when the last take was decided.
	promised plan.Promises
	// write is what to send. Its kind is Nothing if there is nothing to write.
	write plan.Write
}

// excluded is a take that does not fit, with what goes before it.
type excluded struct {
	op         *Op
	precedence plan.Precedence
}

// choose decides the next write from what is known of the bucket. It is pure. It admits
// the takes in their order. After refusals it takes only a share of what the bucket
// holds: processes that each take all of it refuse each other, while takes of a part
// commute.
func choose(known *sight, v plan.View, q choices) decision {
	q.sums = rowsOf(v, q.sums, q.takes)
	d := decision{sums: q.sums}
	ahead := q.sums // with what the deferred takes will take
	prefetches := false
	for _, o := range q.takes {
		if o.ahead {
			prefetches = true
			continue
		}
		if len(q.heads) > 0 {
			d.promised = promised(q.heads, o.Rank, d.waiters, v.Reading())
		}
		if o.unbound, o.down = nil, nil; v.Config.Shadow != 0 {
			o.unbound, o.down = ahead.Shadowed(o.Amounts)
		}
		switch {
		case !ahead.Fit(o.Amounts, d.promised):
			d.left = append(d.left, excluded{o, plan.Precedence{Taken: ahead.Taken(), Left: d.promised}})
			continue
		case len(d.admitted) > 0 && !d.sums.Modest(o.Amounts, q.shareHalvings):
			if d.deferred == nil {
				ahead = slices.Clone(d.sums)
			}
			d.deferred = append(d.deferred, o)
		default:
			o.addTo(&d.sums)
			d.admit(o, q)
		}
		if d.deferred == nil {
			ahead = d.sums
		} else {
			o.addTo(&ahead)
		}
	}
	if prefetches {
		d.debitAhead(v, q)
	}
	if d.carried = d.admitted; len(q.adjusts) > 0 {
		d.carried = append(q.adjusts, d.admitted...)
	}
	if len(d.carried) > 0 {
		oldest := refusals(d.carried)
		if len(q.adjusts) > 0 || v.Config.Shadow != 0 { // a plain take leaves no debt
			d.down = d.sums.WriteDown()
		}
		d.write = v.Plan(d.sums, plan.Rules{
			Tidy: q.mayHousekeep, Later: len(d.admitted) == 0 && oldest >= laterAfter && !d.sums.BoundsDebt(), Crowding: known.crowding.Within(oldest),
		})
	}
	return d
}

// debitAhead adds the takes that debit ahead of calls. It does so only once every other
// take has been admitted, if every limit stays half full and no other process collides
// with this one.
func (d *decision) debitAhead(v plan.View, q choices) {
	for _, o := range q.takes {
		switch {
		case !o.ahead:
		case len(d.left)+len(d.deferred)+len(q.heads)+q.shareHalvings > 0 || refusals(q.takes) > 0 || v.Image == nil || v.Adopt || !d.sums.LeaveHalf(o.Amounts):
			d.dropped = append(d.dropped, o)
		default:
			o.unbound, o.down = d.sums.Shadowed(o.Amounts)
			o.addTo(&d.sums)
			d.admit(o, q)
		}
	}
}

// admit adds a take to those that the write carries. It allocates nothing if there is
// only one.
func (d *decision) admit(o *Op, q choices) {
	if o.Waiter != nil {
		d.waiters = append(d.waiters, o.Waiter)
	}
	if len(q.takes) == 1 {
		d.admitted = q.takes
	} else {
		d.admitted = append(d.admitted, o)
	}
}

// refusals is the highest number of refusals of any of the ops.
func refusals(ops []*Op) int {
	most := 0
	for _, o := range ops {
		most = max(most, o.refusals)
	}
	return most
}
