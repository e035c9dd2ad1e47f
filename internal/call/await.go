package call

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// awaitOp waits until o, an op in the lane at, has a result, and returns true. If bucket or table do not answer
// in the call's time for the store, it gives the op up with an *UnavailableError as its result. It returns
// false, and leaves the op, if ctx has ended.
func (t *taking) awaitOp(ctx context.Context, at *lane.Lane, o *lane.Op) bool {
	p, table := &t.patience, t.desk.Table
	timer := time.NewTimer(time.Until(p.nextDecision()))
	defer timer.Stop()
	for {
		select {
		case <-o.Done:
			return true
		case <-ctx.Done():
			return false
		case <-table.Opened():
			at.GiveUp(o, table.away())
			return true
		case <-timer.C:
		}
		switch {
		case at.Contact.Quiet(p.began) >= leastSilence:
			at.GiveUp(o, table.unanswered(errOutOfTime))
			return true
		case !time.Now().Before(p.until):
			at.GiveUp(o, &fault.UnavailableError{Op: "acquire", Err: outOfTimeFor(o.Cause())})
			return true
		}
		p.reserve = time.Time{} // too short a silence: the caller's deadline decides
		timer.Reset(time.Until(p.until))
	}
}

// leaveAll withdraws the ops of every level because the caller's context ended: grants are given back, and
// unconfirmed amounts count as in doubt. It returns true if there is only one level and its op has a result
// after all, which the caller must then book.
func (t *taking) leaveAll(ops []*lane.Op) bool {
	levels := t.levels
	if len(ops) == 1 {
		_, done := levels[0].lane.Leave(ops[0])
		return done
	}
	for j, o := range ops {
		lv := &levels[j]
		if lv.isSkipped() {
			continue
		}
		switch r, done := lv.lane.Leave(o); {
		case done && r.Pending: // its write is under way
			lv.lane.Follow(o)
		case done && r.Unconfirmed:
			t.desk.Lanes.Doubt(lv.asked)
		case done && r.Err == nil && !r.Denied:
			lv.lane.GiveBack(o, r)
		}
	}
	return false
}
