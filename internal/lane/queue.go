package lane

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// queue holds every op that has not ended, also those of the write in flight. Takes of one
// configuration and class are carried first come, first served, and all adjusts by the next write. An op leaves
// once, with one result. The lane's mutex guards the queue and the states of its ops.
type queue struct {
	ops []*Op
	// room is the memory of ops while there is only one.
	room [1]*Op
	// running means that a goroutine, or the goroutine of a caller, works on the queue.
	running bool
	// riding counts the queued ops that ride: they wait for a write that another op needs.
	riding uint8
	// notices are functions that report outcomes; it may be nil. They take locks of their own, so they
	// run after the mutex has been released.
	notices *[]func()
}

// carried returns the ops of the write in flight.
func (q *queue) carried() (ops []*Op) {
	for _, o := range q.ops {
		if state := o.state.Load(); state == opCarried || state == opPending {
			ops = append(ops, o)
		}
	}
	return ops
}

// hasAdjusts reports whether an adjust is queued or in flight: it may give tokens back, and so make room.
func (q *queue) hasAdjusts() bool {
	return slices.ContainsFunc(q.ops, func(o *Op) bool { return !o.Take })
}

// deliverResult gives an op its result, marks it as done and wakes its caller. If no caller waits, it records
// the outcome instead, and queues the notice of it.
func (q *queue) deliverResult(o *Op, r Result) {
	if o.state.Load() == opPending || o.onOutcome != nil {
		q.recordOutcome(o, r)
		return
	}
	o.state.Store(opDone)
	o.Result = r
	o.Result.Dropped, o.Result.Down, o.Result.Model = o.Dropped, o.Down, o.Model
	close(o.Done)
}

// endUnwritten ends an op that was surely not written, with err as its result.
func (q *queue) endUnwritten(o *Op, err error) { q.deliverResult(o, Result{Err: err}) }

// answerPending answers the caller of an op in flight with err: the result is Pending and Unconfirmed, because
// its write may land. An op that the write has nothing of ends as not written. It does nothing if nobody waits.
func (q *queue) answerPending(o *Op, err error) {
	switch {
	case o.onOutcome != nil: // nobody waits for it
	case o.notCarried.Load():
		q.endUnwritten(o, err)
	default:
		o.state.Store(opPending)
		o.Result = Result{Err: err, Unconfirmed: true, Pending: true}
		close(o.Done)
	}
}

// recordOutcome stores the outcome of an op whose caller no longer waits, and marks the op as gone. It queues
// the notice that calls its onOutcome, if it has one.
func (q *queue) recordOutcome(o *Op, r Result) {
	onOutcome := o.onOutcome
	r.Dropped, r.Down, r.Model = o.Dropped, o.Down, o.Model
	o.state.Store(opGone) // a caller who left must not take the result for its own
	o.outcome.Store(&r)
	if onOutcome == nil {
		return
	}
	if q.notices == nil {
		q.notices = new([]func())
	}
	*q.notices = append(*q.notices, func() { onOutcome(r) })
}

// requeue puts a carried op back for the next write. An op whose caller has left or was answered ends. If
// silent is set, the bucket does not answer, and every op ends as not written.
func (q *queue) requeue(o *Op, silent bool) {
	o.notCarried.Store(false)
	switch state := o.state.Load(); {
	case state >= opDone: // answered when the bucket stopped answering
	case state == opPending: // nothing landed for it, and its caller has gone on
		q.recordOutcome(o, Result{Err: silence(ErrTripped)})
	case o.isAbandonedTake(): // nothing landed for it, and no caller waits
		q.recordOutcome(o, Result{Denied: true})
	case silent:
		q.endUnwritten(o, silence(ErrTripped))
	default:
		o.state.Store(opQueued)
	}
}

// answerAll answers the callers of all ops with err, because the bucket does not answer. Queued ops end as not
// written and leave the queue; those in flight become pending.
func (q *queue) answerAll(err error) {
	for _, o := range q.ops {
		switch o.state.Load() {
		case opQueued:
			q.endUnwritten(o, err)
		case opCarried:
			q.answerPending(o, err)
		default:
		}
	}
	q.removeEnded()
}

// removeEnded removes the ops that are done or gone from the queue, and from the number of riding ops.
func (q *queue) removeEnded() {
	q.ops = slices.DeleteFunc(q.ops, func(o *Op) bool {
		ended := o.state.Load() >= opDone
		if ended && o.rides {
			o.rides = false
			q.riding--
		}
		return ended
	})
}

// stopRiding ends the riding of all queued ops, so that the next write starts for them.
func (q *queue) stopRiding() {
	q.riding = 0
	for _, o := range q.ops {
		o.rides = false
	}
}

// removeWithdrawn removes the ops that have ended, after a caller has withdrawn one. If nothing is left, it
// ends the pause of the lane's pacer, which may be nil.
func (q *queue) removeWithdrawn(p *pacer) {
	q.removeEnded()
	if len(q.ops) == 0 && p != nil {
		p.endPause() // there is nothing to wait for
	}
}

// batch holds the ops that one write carries.
type batch struct {
	adjusts, takes []*Op
	// cfg is the configuration for the decision: that of the takes, or of the last adjust if there are no
	// takes.
	cfg *plan.Config
}

// ops returns the ops of the batch: the adjusts, then the takes.
func (b *batch) ops() []*Op {
	switch {
	case len(b.adjusts) == 0:
		return b.takes
	case len(b.takes) == 0:
		return b.adjusts
	}
	return slices.Concat(b.adjusts, b.takes)
}

// asksOf returns room with pointers to the asks of ops appended. Changes of them change the ops.
func asksOf(room []*plan.Ask, ops []*Op) []*plan.Ask {
	for _, o := range ops {
		room = append(room, &o.Ask)
	}
	return room
}

// charges reports whether the batch takes anything. A batch that only gives back can be
// written without an image.
func (b *batch) charges() bool {
	return len(b.takes) > 0 || slices.ContainsFunc(b.adjusts, func(o *Op) bool { return o.charges })
}

// first returns the first take of the batch, or its first adjust if it has no takes.
func (b *batch) first() *Op {
	if len(b.takes) > 0 {
		return b.takes[0]
	}
	return b.adjusts[0]
}

// limitAdjusts returns as many adjusts, in their order, as one write can carry, and the others. One write gives
// back tokens of one window of a quota only. Ordinals do not show which window has ended if the unit or the kind changed
// in between.
func limitAdjusts(adjusts []*Op) (carried, later []*Op) {
	sums := make(plan.Rows, 0, 4)
	for i, o := range adjusts {
		if i > 0 && (sums.Overflows(o.Amounts) || sums.OfOtherWindows(o.Amounts)) {
			return adjusts[:i], adjusts[i:]
		}
		sums = sums.With(&o.Ask)
		o.AddTo(sums)
	}
	return adjusts, nil
}

// chargesUnknownLimit reports whether the batch charges a limit that cfg has and the image, which may be nil,
// lacks. Give-backs do not count.
func (b *batch) chargesUnknownLimit(image *schema.Image, cfg *plan.Config) bool {
	charges := func(o *Op) bool {
		return slices.ContainsFunc(o.Amounts, func(a plan.Signed) bool {
			return (o.Take || a.Amount > 0) && !image.HasLimit(a.Name) && cfg.Index(a.Name) >= 0
		})
	}
	return slices.ContainsFunc(b.takes, charges) || slices.ContainsFunc(b.adjusts, charges)
}

// splitOps separates the ops with a property from the others, in their order.
func splitOps(ops []*Op, has func(*Op) bool) (with, others []*Op) {
	for _, o := range ops {
		if has(o) {
			with = append(with, o)
		} else {
			others = append(others, o)
		}
	}
	return with, others
}

// sameConfig reports whether two configurations have the same fingerprint, the same override and the same
// limits in shadow.
func sameConfig(a, b *plan.Config) bool {
	return a == b || string(a.Fingerprint) == string(b.Fingerprint) && a.Override == b.Override && a.Shadow == b.Shadow
}

// nextBatch returns the batch of the next write: all adjusts, also riding ones, and the takes with the
// configuration of the oldest one. It marks these ops as carried; they stay in the queue until they end.
// adjustsOnly leaves out the takes if there are adjusts; something must be queued.
func (q *queue) nextBatch(adjustsOnly bool) (b batch) {
	if q.riding > 0 { // the batch has all adjusts
		q.stopRiding()
	}
	if one := q.ops[0]; len(q.ops) > 1 {
		b = q.nextOfSeveral(adjustsOnly)
	} else {
		b.cfg, one.listOfOne[0] = one.cfg, one
		if list := one.listOfOne[:]; one.Take { // no allocation
			b.takes = list
		} else {
			b.adjusts = list
		}
	}
	for _, ops := range [...][]*Op{b.adjusts, b.takes} {
		for _, o := range ops {
			o.state.Store(opCarried)
		}
	}
	return b
}

// nextOfSeveral is nextBatch for more than one op, which it does not mark. Takes of batch calls are the last ones of
// their configuration. The oldest take decides which configuration is next, so no class waits for ever for the other.
func (q *queue) nextOfSeveral(adjustsOnly bool) (b batch) {
	for _, o := range q.ops {
		if !o.Take {
			b.adjusts, b.cfg = append(b.adjusts, o), o.cfg
		}
	}
	if adjustsOnly && len(b.adjusts) > 0 {
		return b
	}
	if oldest := slices.IndexFunc(q.ops, func(o *Op) bool { return o.Take }); oldest >= 0 {
		b.cfg = q.ops[oldest].cfg
	}
	for _, batch := range [...]bool{false, true} {
		for _, o := range q.ops {
			if o.Take && o.Batch == batch && sameConfig(b.cfg, o.cfg) {
				b.takes, b.cfg = append(b.takes, o), o.cfg
			}
		}
	}
	return b
}
