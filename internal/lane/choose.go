package lane

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// queue is what a write may carry, and who goes before it.
type queue struct {
	adjusts, takes []*Op
	// sums are those of the adjusts.
	sums plan.Sums
	// heads are the waiters at the head of the bucket's line.
	heads []head
	// shareHalvings is how often the share that one write takes has been halved.
	shareHalvings int
	// mayHousekeep allows a claim that nothing but age asks for.
	mayHousekeep bool
}

// decision is what a write carries, and what becomes of the takes that it does
// not carry.
type decision struct {
	// carried are the adjusts and the takes admitted; sums are theirs.
	carried, admitted []*Op
	sums              plan.Sums
	// left are the takes that do not fit; spared would, but other processes were
	// faster of late.
	left     []excluded
	deferred []*Op
	// dropped would debit ahead of calls what is scarce.
	dropped []*Op
	// promised is what was left to waiters before the last take.
	promised plan.Promises
	// write is what to send, Nothing if there is nothing to write or nothing is
	// carried.
	write plan.Write
}

// excluded is a take that does not fit beside what goes before it.
type excluded struct {
	op         *Op
	precedence plan.Precedence
}

// choose decides the next write from what is known of the bucket. It is pure. It
// admits takes in their order. After refusals it takes only a share of what is
// there: processes that all take the whole of it refuse each other, those that
// take a part commute.
func choose(known *sight, v plan.View, q queue) decision {
	d := decision{sums: q.sums}
	ahead := q.sums // and what those spared will take
	reading := v.Reading()
	for _, o := range q.takes {
		if o.ahead {
			continue
		}
		d.promised = promised(q.heads, o.Rank, d.admitted, reading)
		switch {
		case !v.Fits(o.Amounts, ahead, d.promised):
			d.left = append(d.left, excluded{o, plan.Precedence{Taken: ahead.Taken(), Left: d.promised}})
			continue
		case len(d.admitted) > 0 && !v.Modest(o.Amounts, d.sums, q.shareHalvings):
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
	d.debitAhead(v, q)
	if d.carried = d.admitted; len(q.adjusts) > 0 {
		d.carried = append(q.adjusts, d.admitted...)
	}
	if len(d.carried) > 0 {
		oldest := refusals(d.carried)
		d.write = v.Plan(d.sums, plan.Rules{
			Tidy: q.mayHousekeep, Later: len(d.admitted) == 0 && oldest >= laterAfter, Crowding: known.crowding.Within(oldest),
		})
	}
	return d
}

// debitAhead adds what is to be debited ahead of calls, once all of them have what
// they ask for, if that leaves every limit half full and nobody else is in the way.
func (d *decision) debitAhead(v plan.View, q queue) {
	for _, o := range q.takes {
		switch {
		case !o.ahead:
		case len(d.left)+len(d.deferred)+len(q.heads)+q.shareHalvings > 0 || refusals(q.takes) > 0 || v.Image == nil || v.Adopt || !v.LeavesHalf(o.Amounts, d.sums):
			d.dropped = append(d.dropped, o)
		default:
			o.addTo(&d.sums)
			d.admit(o, q)
		}
	}
}

// admit adds a take to those that ride; the only one needs no list of its own.
func (d *decision) admit(o *Op, q queue) {
	if len(q.takes) == 1 {
		d.admitted = q.takes
	} else {
		d.admitted = append(d.admitted, o)
	}
}

// refusals is how often the one of the ops was refused that was refused most.
func refusals(ops []*Op) int {
	most := 0
	for _, o := range ops {
		most = max(most, o.refusals)
	}
	return most
}
