package lane

import "slices"

// queue holds every op that has not ended, also those of the write in flight. Takes of one
// configuration are carried first come, first served, and all adjusts by the next write. An op leaves
// once, with one result. The lane's mutex guards the queue and the states of its ops.
type queue struct {
	ops []*Op
	// room is the memory of ops while there is only one.
	room [1]*Op
	// notices are functions that report outcomes; it may be nil. They take locks of their own, so they
	// run after the mutex has been released.
	notices *[]func()
	// gather waits for callers that come back at once; nil before the first write of two takes.
	gather *gather
}

// add queues an op.
func (q *queue) add(o *Op) {
	q.ops = append(q.ops, o)
	if q.gather != nil {
		q.arrives(o)
	}
}

// carried returns the ops of the write in flight.
func (q *queue) carried() (ops []*Op) {
	for _, o := range q.ops {
		if o.state == opCarried || o.state == opPending {
			ops = append(ops, o)
		}
	}
	return ops
}

// givesBack reports whether an adjust is queued or in flight: it may make room.
func (q *queue) givesBack() bool {
	return slices.ContainsFunc(q.ops, func(o *Op) bool { return !o.Take })
}

// end gives its result to an op that a write carried.
func (q *queue) end(o *Op, r Result) {
	if o.state == opPending || o.onOutcome != nil {
		q.record(o, r)
		return
	}
	if q.gather != nil && o.Take && r.Err == nil && !r.Denied {
		q.grants()
	}
	o.state, o.Result = opDone, r
	o.Result.Dropped, o.Result.Down = o.Dropped, o.Down
	close(o.Done)
}

// endUnwritten ends a queued op, which was surely not written.
func (q *queue) endUnwritten(o *Op, err error) { q.end(o, Result{Err: err}) }

// answerPending answers the caller of an op in flight: its write may land.
func (q *queue) answerPending(o *Op, err error) {
	switch {
	case o.onOutcome != nil: // nobody waits for it
	case o.notCarried:
		q.endUnwritten(o, err)
	default:
		o.state = opPending
		o.Result = Result{Err: err, Unconfirmed: true, Pending: true}
		close(o.Done)
	}
}

// record stores the outcome of an op whose caller no longer waits.
func (q *queue) record(o *Op, r Result) {
	onOutcome := o.onOutcome
	r.Dropped, r.Down = o.Dropped, o.Down
	o.state = opGone // a caller who left must not take the result for its own
	o.outcome.Store(&r)
	if onOutcome == nil {
		return
	}
	if q.notices == nil {
		q.notices = new([]func())
	}
	*q.notices = append(*q.notices, func() { onOutcome(r) })
}

// again puts a carried op back, for the next write, if it has not ended meanwhile. silent
// means that the bucket does not answer.
func (q *queue) again(o *Op, silent bool) {
	o.notCarried = false
	switch {
	case o.state >= opDone: // answered when the bucket stopped answering
	case o.state == opPending: // nothing landed for it, and its caller has gone on
		q.record(o, Result{Err: silence(ErrTripped)})
	case o.abandoned && o.Take: // nothing landed for it, and no caller waits
		q.record(o, Result{Denied: true})
	case silent:
		q.endUnwritten(o, silence(ErrTripped))
	default:
		o.state = opQueued
	}
}

// answerAll answers every caller, because the bucket does not answer.
func (q *queue) answerAll(err error) {
	for _, o := range q.ops {
		switch o.state {
		case opQueued:
			q.endUnwritten(o, err)
		case opCarried:
			q.answerPending(o, err)
		default:
		}
	}
	q.removeEnded()
}

// removeEnded removes the ops that have ended.
func (q *queue) removeEnded() {
	q.ops = slices.DeleteFunc(q.ops, func(o *Op) bool { return o.state >= opDone })
}

// withdraw removes a queued op that has ended. If nothing is left, it ends the pause of the
// pacer.
func (q *queue) withdraw(p *pacer) {
	q.removeEnded()
	if len(q.ops) == 0 && p != nil {
		p.endPause() // there is nothing to wait for
	}
}
