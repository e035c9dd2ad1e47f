package call

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
)

// Calls that ask one bucket first. The take of a paced level queues first, and the others go out with
// its write, so that no child is debited while its parent waits for its turn. If a call charges groups,
// the bucket that is likely to deny answers first: giving back the grants of the others would cost a
// write each.

// firstLevel returns the index of the level to ask before the others, -1 if all are asked at once. decides
// means that the others wait for its answer; otherwise they wait until its write is sent.
func (t *taking) firstLevel() (first int, decides bool) {
	first = t.pacedLevel()
	grouped := slices.ContainsFunc(t.levels, func(lv level) bool { return lv.lane.Resource != t.levels[0].lane.Resource })
	if first >= 0 || !grouped {
		return first, false
	}
	now := t.desk.NowMS()
	for i := range t.levels {
		lv := &t.levels[i]
		beside := lane.BesideOf(lv.lane)
		if !lv.isSkipped() && beside.Tight(lv.cfg.Enforced(lv.asked), now) {
			return i, true
		}
	}
	return -1, false
}

// pacedLevel returns the index of the level whose lane has the longest wait for its turn. It is -1 if no lane
// has to wait, or if only one level is asked.
func (t *taking) pacedLevel() int {
	paced, longest := -1, time.Duration(0)
	if t.levels.countAsked() < 2 {
		return paced
	}
	for i := range t.levels {
		lv := &t.levels[i]
		if lv.isSkipped() {
			continue
		}
		if turn := lv.lane.WriteWait(); turn > longest {
			paced, longest = i, turn
		}
	}
	return paced
}

// writeFirst queues the take of the level first and waits until its write is sent or, if decides is set,
// answered. over means that this level ended the call before the others were asked; err is then its outcome.
// Otherwise the others must be asked next.
func (t *taking) writeFirst(ctx context.Context, ops []*lane.Op, first int, decides bool) (over bool, err error) {
	o, lv := ops[first], &t.levels[first]
	var sent <-chan struct{}
	if !decides {
		sent = o.NotifySent()
	}
	lv.lane.Submit(o)
	if !t.awaitSent(ctx, lv.lane, o, sent) {
		t.leaveAll(ops)
		return true, ctx.Err()
	}
	select {
	case <-o.Done:
	default:
		return false, nil // its write is in flight
	}
	switch r := o.Result; {
	case r.Denied && t.noteOthers(ctx, first):
		lv.noteAnswer(r)
		return true, t.levels.denial(t.request)
	case r.Err == nil || lv.policyOf(t.policy).Admits():
		return false, nil
	default:
		for i, other := range ops {
			if i != first {
				other.Result.Err = r.Err // nothing of it was written
			}
		}
		return true, t.finishTake(ctx, ops, t.policy)
	}
}

// awaitSent waits until an op's write is sent (then sent is closed) or the op has ended. If that takes too
// long, it gives the op up, as awaitOp does. It returns false if ctx has ended.
func (t *taking) awaitSent(ctx context.Context, at *lane.Lane, o *lane.Op, sent <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(t.patience.nextDecision()))
	defer timer.Stop()
	select {
	case <-sent:
		return true
	case <-o.Done:
	case <-ctx.Done():
	case <-t.desk.Table.Opened():
	case <-timer.C:
	}
	return t.awaitOp(ctx, at, o) // decides, as of any op that takes too long
}

// noteOthers records the balances of the levels other than asked, for a denial by that: from memory, or read at
// the same time. It returns false if a bucket cannot be read or its lane must decide.
func (t *taking) noteOthers(ctx context.Context, asked int) bool {
	now, by := t.desk.NowMS(), t.by // of t, nothing is left to the reads: it stays on the stack
	var reads sync.WaitGroup
	var unknown atomic.Bool
	for i := range t.levels {
		lv := &t.levels[i]
		if i == asked || lv.isSkipped() {
			continue
		}
		if r, _ := lv.lane.Memory.Recall(lv.asked, lv.cfg, by, now); r.Config != nil {
			lv.noteAnswer(r)
			continue
		}
		reads.Go(func() {
			r, ok := inspectBucket(ctx, lv.lane, lv.cfg, lv.asked, by)
			if ok {
				lv.noteAnswer(r)
			} else {
				unknown.Store(true)
			}
		})
	}
	reads.Wait()
	return !unknown.Load()
}
