package dynalimit

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
)

// A cascade one of whose buckets is paced: the paced level's take queues first, and
// the others go out with its write, so that no child is debited while its parent
// waits for its turn.

// pacedLevel is the level whose lane has to wait longest for its turn. It is -1 if none
// has to wait, or if there is only one level.
func (lease *Lease) pacedLevel() int {
	paced, longest := -1, time.Duration(0)
	if lease.spread() < 2 {
		return paced
	}
	for i := range lease.levels {
		lv := &lease.levels[i]
		if lv.skipped() {
			continue
		}
		if turn := lv.lane.Turn(); turn > longest {
			paced, longest = i, turn
		}
	}
	return paced
}

// writePacedFirst queues the take of the paced level and waits until its write is sent.
// over means that this level ended the call before the others were asked.
func (l *RateLimiter) writePacedFirst(ctx context.Context, lease *Lease, ops []*lane.Op, first int, at position, policy UnavailablePolicy, p *patience) (over bool, err error) {
	o, lv := ops[first], &lease.levels[first]
	sent := o.TellSent()
	lv.lane.Submit(o)
	at.callFitting(lv)
	if !l.awaitSent(ctx, lv.lane, o, sent, p) {
		l.leaveAll(lease, ops)
		return true, ctx.Err()
	}
	select {
	case <-o.Done:
	default:
		return false, nil // its write is under way
	}
	switch r := o.Result; {
	case r.Denied && l.noteOthers(ctx, lease, first, at.rank()):
		lv.noteAnswer(r)
		return true, lease.denial()
	case r.Err == nil || policy.admits():
		return false, nil
	default:
		for i, other := range ops {
			if i != first {
				other.Result.Err = r.Err // nothing of it was written
			}
		}
		return true, l.conclude(ctx, lease, ops, policy)
	}
}

// awaitSent waits until an op's write is sent or the op has ended. It returns false if
// ctx has ended.
func (l *RateLimiter) awaitSent(ctx context.Context, at *lane.Lane, o *lane.Op, sent <-chan struct{}, p *patience) bool {
	timer := time.NewTimer(time.Until(p.next()))
	defer timer.Stop()
	select {
	case <-sent:
		return true
	case <-o.Done:
	case <-ctx.Done():
	case <-l.lanes.Table.Opened():
	case <-timer.C:
	}
	return l.await(ctx, at, o, p) // decides, as of any op that takes too long
}

// noteOthers notes what the other levels hold, for a denial by the level that was asked
// first. It returns false if a lane has to say it.
func (l *RateLimiter) noteOthers(ctx context.Context, lease *Lease, asked int, rank uint64) bool {
	now := l.nowMS()
	for i := range lease.levels {
		lv := &lease.levels[i]
		if i == asked || lv.skipped() {
			continue
		}
		r, _ := lv.lane.Recall(lv.asked, lv.cfg, rank, now)
		if r.Config == nil {
			var ok bool
			if r, ok = inspect(ctx, lv.lane, lv.cfg, lv.asked, rank); !ok {
				return false
			}
		}
		lv.noteAnswer(r)
	}
	return true
}
