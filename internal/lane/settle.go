package lane

import (
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// What the answer to a write means for the ops that it carried: they end, or are decided
// again.

// settleWrite ends the ops of a write by its answer, or puts them back into the queue.
func (l *Lane) settleWrite(carried []*Op, v plan.View, housekeeping bool, a Answer, adjusts bool) {
	l.housekeepingRefused = housekeeping && a.Verdict != ddb.Landed
	switch a.Verdict {
	case ddb.Landed:
		l.doubtEarlier(carried, a)
		l.shareHalvings = max(0, l.shareHalvings-1)
		l.countTraffic(carried, v, a)
		l.finish(carried, Result{Image: a.Image, Now: v.Now, Config: v.Config, Err: a.Err})
	case ddb.Refused:
		carried = l.dropPrefetches(l.endPending(carried, a), a.earlierUnconfirmed)
		l.doubtEarlier(carried, a)
		l.adjustsOnly = adjusts
		l.shareHalvings = min(l.shareHalvings+1, maxShareHalvings)
		l.requeue(l.countRefusal(l.denyUnfit(carried, v, a)))
	case ddb.Throttled:
		l.putOff(carried, a.Err)
	default:
		l.finish(carried, l.resultUnwritten(a))
	}
}

// resultUnwritten is the result of ops whose write did not land, or may not have landed.
func (l *Lane) resultUnwritten(a Answer) Result {
	if a.Verdict == ddb.Conflicted { // answered each time
		return Result{Err: &Failure{Reason: Contended}}
	}
	return Result{Err: a.Err, Unconfirmed: a.Verdict == ddb.Unconfirmed}
}

// endPending ends the ops whose callers were told that the write is under way, if an
// earlier try of it got no answer and may still land. Sent again, they might be charged
// twice. It returns the others.
func (l *Lane) endPending(carried []*Op, a Answer) []*Op {
	if !a.earlierUnconfirmed {
		return carried
	}
	var doubted, others []*Op
	l.mu.Lock()
	for _, o := range carried {
		if o.state == opPending {
			doubted = append(doubted, o)
		} else {
			others = append(others, o)
		}
	}
	l.mu.Unlock()
	l.finish(doubted, Result{Err: unconfirmed(writeBucket), Unconfirmed: true})
	return others
}

// doubtEarlier tells what an earlier try of a write that got no answer may have charged,
// besides what becomes of the ops.
func (l *Lane) doubtEarlier(carried []*Op, a Answer) {
	if !a.earlierUnconfirmed {
		return
	}
	for _, o := range carried {
		l.owner.Doubt(o.charged())
	}
}

// denyUnfit denies the takes of a refused write that do not fit the bucket as it was
// then, at the instant for which they were decided. It returns the others. If it decided
// for a later instant, each of many processes would find room from the refill since, and
// they would keep refusing each other.
func (l *Lane) denyUnfit(carried []*Op, v plan.View, a Answer) []*Op {
	if !a.Seen || a.Image == nil || !v.Config.Wrote(a.Image) {
		return carried
	}
	again := l.denyUnfitIn(plan.NewView(a.Image, v.Config, plan.Current, v.Now), carried)
	for _, o := range carried {
		if o.Waiter != nil && !slices.Contains(again, o) {
			l.Line.Lost(o.Waiter)
		}
	}
	return again
}

// denyUnfitAsSeen denies the takes that did not fit at the instant when the bucket was
// read, and returns the others. The refill during the read would make room in half of
// the reads, and the write would then be refused.
func (l *Lane) denyUnfitAsSeen(v plan.View, b batch) []*Op {
	if v.Adopt || v.Image == nil || !v.Config.Wrote(v.Image) {
		return b.takes
	}
	v.Now = l.sight.seenAt
	return l.denyUnfitIn(v, b.ops())[len(b.adjusts):]
}

// denyUnfitIn denies the takes that do not fit the view, and returns the other ops.
func (l *Lane) denyUnfitIn(v plan.View, carried []*Op) []*Op {
	var s plan.Sums
	heads := l.Line.heads()
	var waiters []*Waiter
	remaining := make([]*Op, 0, len(carried))
	for _, o := range carried {
		if o.take {
			if left := promised(heads, o.Rank, waiters, v.Reading()); !v.Fits(o.Amounts, s, left) {
				l.finish([]*Op{o}, Result{Denied: true, Image: v.Image, Now: v.Now, Config: v.Config, Before: plan.Precedence{Taken: s.Taken(), Left: left}})
				continue
			}
		}
		o.addTo(&s)
		if o.Waiter != nil {
			waiters = append(waiters, o.Waiter)
		}
		remaining = append(remaining, o)
	}
	return remaining
}

// countRefusal counts a refusal of the ops. It ends those that were refused too often
// and returns the others, after a pause if they were refused more than once.
func (l *Lane) countRefusal(ops []*Op) []*Op {
	most := 0
	var exhausted, again []*Op
	for _, o := range ops {
		if o.refusals++; o.refusals >= MaxRefusals {
			exhausted = append(exhausted, o)
			continue
		}
		most = max(most, o.refusals)
		again = append(again, o)
	}
	if len(exhausted) > 0 {
		l.finish(exhausted, Result{Err: &Failure{Reason: Contended}})
	}
	if most > 1 {
		ddb.Sleep(context.Background(), Backoff.Wait(most-2)/refusalHaste)
	}
	l.pacer.Load().refused()
	return again
}
