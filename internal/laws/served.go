package laws

import "fmt"

// Limiters that prefetch. Admissions from memory are judged at their own instant, not at that of the debit.

// admitFromMemory adds an admission to the limit's queue of admissions, and returns the violation of its bound
// as text, or "". The bound is the burst plus the refill, give-backs and adjusts of one horizon. It does
// nothing for a quota, or without prefetch.
func (j *judge) admitFromMemory(t *truth, name string, amount, burst, at int64) (wrong string) {
	if j.rules.horizon == 0 || t.quota {
		return ""
	}
	t.ahead.queue += amount
	bound := burst + j.clockTolerance(t) + t.fastest.RefilledIn(1000*j.rules.horizon) + 1 + t.ahead.most + t.ahead.adjusted.sumSince(at-j.rules.horizon)
	if over := t.ahead.queue - bound; over > 0 && amount > 0 {
		wrong = fmt.Sprintf("L1: %s admitted %d too much: %d at a queue of %d, burst %d, slack %d, given back %d",
			name, over, amount, t.ahead.queue-amount, burst, j.clockTolerance(t), t.ahead.most)
	}
	if excess := t.ahead.queue - burst; excess > 0 && amount > 0 {
		j.tally["admitted above the burst"]++
	}
	return wrong
}

// replayServed replays the calls that lanes admitted from prefetched tokens before the n-th committed write,
// and removes them from the oracle. Calls that were put back do not count.
func (j *judge) replayServed(n int) {
	for len(j.oracle.served) > 0 && j.oracle.served[0].after <= n {
		e := j.oracle.served[0]
		j.oracle.served = j.oracle.served[1:]
		if !e.back {
			j.tally["served"]++
			j.replayAdmission(e)
		}
	}
}

// replayAdmission replays one call admitted from prefetched tokens. It adds to the account and stake of each
// limit, and to the queue of admissions if the bucket is still the same. A call above the bound, or with tokens
// that were not debited, is a violation.
func (j *judge) replayAdmission(e *served) {
	here, current := j.made[e.entity+"#"+string(e.Incarnation)]
	current = current && here == j.incarnations[e.entity] && j.images[e.entity] != nil
	if current {
		j.drainQueues(e.entity, j.images[e.entity], e.at)
	}
	for _, a := range e.Amounts {
		j.accountOf(e.entity, a.Name).granted += a.Amount
		if e.stake != nil {
			l := e.stake.wholeStake().lotFor(lot{e.entity, here, a.Name})
			l.debited, l.told = l.debited+a.Amount, l.told+a.Amount
			j.bookTaken(e.stake.wholeStake(), windowLot{entity: e.entity, incarnation: here, limit: a.Name}, a.Amount)
		}
		if !current {
			continue // a deleted bucket is owed nothing
		}
		t, i := j.buckets[e.entity][a.Name], j.images[e.entity].Set.Index(a.Name)
		if t == nil || i < 0 {
			continue
		}
		if wrong := j.admitFromMemory(t, a.Name, a.Amount, j.images[e.entity].Limits[i].Burst, e.at); wrong != "" {
			j.violations = append(j.violations, fmt.Sprintf("served at %d: %s", e.at, wrong))
		}
		if t.ahead.held -= a.Amount; t.ahead.held < 0 {
			j.violations = append(j.violations, fmt.Sprintf("L9: served at %d: %d of %s were admitted that nobody debited", e.at, -t.ahead.held, a.Name))
		}
	}
}
