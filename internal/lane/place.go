package lane

import (
	"cmp"
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// An Acquire that is denied beside waiters leaves a place at the end of their line, at most as many as there are
// waiters. The waiters behind a place leave its amounts once they are there, for placeKept ms. The next Acquire that
// needs no more has them. Callers who come back when they were told are thus served in turn with the waiters.

// placeKept is the time in ms for which a place keeps its amounts.
const placeKept = 100

// place is the place of a denied Acquire in a line, whose lock guards it.
type place struct {
	rank    uint64
	amounts []plan.Signed
	// since is the instant in Unix ms since which its amounts have been there; 0 before.
	since int64
}

// isOver reports whether the place has kept its amounts for more than 100 ms at now, in Unix ms. It is false
// while they are not there yet.
func (p *place) isOver(now int64) bool { return p.since > 0 && now-p.since > placeKept }

// LeavePlace leaves a place with amounts for a denied Acquire, at its rank in the line. It does nothing if the
// line has as many places as waiters.
func (l *Line) LeavePlace(rank uint64, amounts []plan.Signed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.places) < len(l.waiters) {
		at, _ := slices.BinarySearchFunc(l.places, rank, func(p *place, rank uint64) int { return cmp.Compare(p.rank, rank) })
		l.places = slices.Insert(l.places, at, &place{rank: rank, amounts: amounts})
	}
}

// dropPlace removes a place, because a landed take has its amounts. It does nothing if the line lacks the
// place.
func (l *Line) dropPlace(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places = slices.DeleteFunc(l.places, func(o *place) bool { return o == p })
}

// placeClaim is a place at one instant. before sums the amounts of the waiters behind the heads, and of the places,
// that are before it.
type placeClaim struct {
	*place
	rank    uint64
	amounts []plan.Signed
	since   int64
	before  []plan.Signed
}

// placeClaims returns the line's places in order, each with the sum of the amounts before it. These are of the waiters
// behind the heads, and of earlier places. It is nil without a place. l.mu must be held.
func (l *Line) placeClaims() (all []placeClaim) {
	if len(l.places) == 0 {
		return nil
	}
	var before []plan.Signed
	waiters := l.waiters
	for _, p := range l.places {
		for ; len(waiters) > 0 && waiters[0].Rank < p.rank; waiters = waiters[1:] {
			if waiters[0].counted {
				before = plan.Plus(before, waiters[0].amounts)
			}
		}
		all = append(all, placeClaim{p, p.rank, p.amounts, p.since, before})
		before = plan.Plus(before, p.amounts)
	}
	return all
}

// isKeptOver reports whether the place had kept its amounts for more than 100 ms at now, in Unix ms. It is
// false if they were not there yet.
func (p *placeClaim) isKeptOver(now int64) bool { return p.since > 0 && now-p.since > placeKept }

// placeFor returns the first place that has at least the amounts of an Acquire, of each limit. It skips places
// that are over at now and those in used, and returns nil without such a place.
func (c *claims) placeFor(amounts []plan.Signed, used []*place, now int64) *placeClaim {
	for i := range c.places {
		p := &c.places[i]
		if p.isKeptOver(now) || slices.Contains(used, p.place) {
			continue
		}
		if !slices.ContainsFunc(amounts, func(a plan.Signed) bool { n, _ := plan.AmountOf(p.amounts, a.Name); return n < a.Amount }) {
			return p
		}
	}
	return nil
}

// placeOf chooses the place in the line of an op that does not wait, stores it in the op and returns it.
// earlier are the ops before it in the write. It returns nil for a prefetch, and if no place fits.
func (c *claims) placeOf(o *Op, earlier []*Op, now int64) *placeClaim {
	c = c.ofClass(o.Batch)
	if o.place = nil; len(c.places) == 0 || o.Rank != LastRank || o.Prefetch {
		return nil
	}
	var used []*place
	for _, e := range earlier {
		if e.place != nil && e.Fate == plan.Carried {
			used = append(used, e.place)
		}
	}
	p := c.placeFor(o.Amounts, used, now)
	if p != nil {
		o.place = p.place
	}
	return p
}

// dueBehindPlaces returns the wait in ms of a waiter behind places. It ends when the waiter's amounts fit after theirs and
// beside a reservation of another process, or when the places are over. without is its wait without the places, and f
// the forecast of the line. It removes places that are over, and starts the time of those whose amounts are there; l.mu
// must be held.
func (l *Line) dueBehindPlaces(w *Waiter, f plan.Forecast, r plan.Reading, without int64) int64 {
	reserved := plan.Forecast{Limits: slices.Clone(f.Limits)}
	reserved.PromiseReserved(r, l.contest.Lane)
	l.places = slices.DeleteFunc(l.places, func(p *place) bool { return p.isOver(r.Now) })
	places, over := l.places, int64(0)
	serve := func(before uint64) {
		for ; len(places) > 0 && places[0].rank < before; places = places[1:] {
			p := places[0]
			wait, ok := f.Wait(r, p.amounts)
			if !ok {
				continue
			}
			if wait == 0 && p.since == 0 {
				p.since = r.Now
			}
			turn := r.Now + wait
			if p.since > 0 {
				turn = p.since
			}
			over = max(over, turn+placeKept)
			f.Serve(r, p.amounts)
			reserved.Serve(r, p.amounts)
		}
	}
	for _, o := range l.waiters {
		serve(o.Rank)
		if o == w {
			break
		}
		if !o.served && (o.head || !w.head) {
			f.Serve(r, o.amounts)
			reserved.Serve(r, o.amounts)
		}
	}
	if over == 0 { // no place is before it
		return without
	}
	wait, ok := reserved.Wait(r, w.amounts)
	if !ok {
		return max(without, over+1-r.Now)
	}
	return min(wait, max(without, over+1-r.Now))
}

// takePlaces returns sums with the amounts of the places before a rank added, and the places behind that rank.
// It leaves out places that are over. l.mu must be held.
func takePlaces(sums plan.Rows, v plan.View, places []*place, before uint64) (plan.Rows, []*place) {
	for ; len(places) > 0 && places[0].rank < before; places = places[1:] {
		if !places[0].isOver(v.Now) {
			sums = v.Rows(sums, places[0].amounts)
			sums.Take(places[0].amounts)
		}
	}
	return sums, places
}
