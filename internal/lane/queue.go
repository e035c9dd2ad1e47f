package lane

import (
	"bytes"
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// queue holds every op that has not ended, also those that the write under way carries.
// Takes of one configuration are carried first come, first served, and all adjusts by the
// next write. An op leaves once, with one result. The lane's mutex guards the queue and
// the states of its ops.
type queue struct {
	ops []*Op
	// room is the memory of ops while there is one only.
	room [1]*Op
	// notices are functions that tell others of outcomes; nil for none. They take locks of
	// their own, so they run after the mutex has been released.
	notices *[]func()
}

// add queues an op.
func (q *queue) add(o *Op) { q.ops = append(q.ops, o) }

// next forms the next batch: all adjusts, and the takes that have the same configuration
// as the first take. adjustsOnly leaves out the takes, if there are adjusts. It is false if
// nothing is queued.
func (q *queue) next(adjustsOnly bool) (batch, bool) {
	if len(q.ops) == 0 {
		return batch{}, false
	}
	var b batch
	for _, o := range q.ops {
		if !o.take {
			b.adjusts = append(b.adjusts, o)
		}
	}
	if !adjustsOnly || len(b.adjusts) == 0 {
		b.takes = q.nextTakes()
	}
	return b, true
}

// nextTakes are the takes that have the same configuration as the first one.
func (q *queue) nextTakes() (takes []*Op) {
	for _, o := range q.ops {
		switch {
		case !o.take || len(takes) > 0 && !sameConfig(takes[0].cfg, o.cfg):
		case len(q.ops) == 1:
			takes = o.asList()
		default:
			takes = append(takes, o)
		}
	}
	return takes
}

// carried are the ops of the write that is under way.
func (q *queue) carried() (ops []*Op) {
	for _, o := range q.ops {
		if o.state == opCarried || o.state == opPending {
			ops = append(ops, o)
		}
	}
	return ops
}

// givesBack reports whether an adjust is queued or under way: it may make room.
func (q *queue) givesBack() bool {
	return slices.ContainsFunc(q.ops, func(o *Op) bool { return !o.take })
}

// end gives its result to an op that a write carried.
func (q *queue) end(o *Op, r Result) {
	if o.state == opPending || o.onOutcome != nil {
		q.record(o, r)
		return
	}
	o.state, o.Result = opDone, r
	o.Result.Dropped = o.dropped
	close(o.Done)
}

// endUnwritten ends a queued op, which was surely not written.
func (q *queue) endUnwritten(o *Op, err error) { q.end(o, Result{Err: err}) }

// answerPending tells the caller of an op that its write is under way and may land.
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

// record gives its outcome to an op whose caller does not wait any more.
func (q *queue) record(o *Op, r Result) {
	onOutcome := o.onOutcome
	r.Dropped = o.dropped
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
	case o.abandoned && o.take: // nothing landed for it, nobody waits
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
	if len(q.ops) == 0 {
		p.endPause() // there is nothing to wait for
	}
}

// takeNotices takes out the notices that are to run.
func (q *queue) takeNotices() []func() {
	if q.notices == nil {
		return nil
	}
	notices := *q.notices
	q.notices = nil
	return notices
}

// batch holds the ops that one write carries.
type batch struct {
	adjusts, takes []*Op
}

func (b *batch) ops() []*Op { return slices.Concat(b.adjusts, b.takes) }

func (b *batch) size() int { return len(b.adjusts) + len(b.takes) }

// carry notes that a write carries the ops from now on.
func (b *batch) carry() {
	for _, o := range b.adjusts {
		o.state = opCarried
	}
	for _, o := range b.takes {
		o.state = opCarried
	}
}

// charges reports whether the batch takes anything. A batch that only gives back can be
// written without an image.
func (b *batch) charges() bool {
	return len(b.takes) > 0 || slices.ContainsFunc(b.adjusts, (*Op).charges)
}

func (b *batch) first() *Op {
	if len(b.takes) > 0 {
		return b.takes[0]
	}
	return b.adjusts[0]
}

// config is the configuration that the batch is decided under: that of the takes, or of
// the last adjust if there are none.
func (b *batch) config() *plan.Config {
	if len(b.takes) > 0 {
		return b.takes[0].cfg
	}
	return b.adjusts[len(b.adjusts)-1].cfg
}

// needsRead reports whether the bucket has to be read before the batch can be decided. That
// is so, besides, if a give-back meets another incarnation, no bucket, or a bucket without
// one of the limits, because the image may be older than the grant: a transaction's answer
// shows no image.
func (b *batch) needsRead(known *sight) bool {
	if !known.known {
		return b.charges()
	}
	return slices.ContainsFunc(b.adjusts, func(o *Op) bool {
		return o.refusals == 0 && o.GivesBack() && (o.refundsOtherIncarnation(known.image) || o.refundsUnknownLimit(known.image))
	})
}

// adjustsOnly reports whether the batch only adjusts a bucket that a client of this
// library wrote.
func (b *batch) adjustsOnly(known *sight) bool { return len(b.takes) == 0 && known.whole() }

// chargesUnknownLimit reports whether the batch charges a configured limit that the
// image does not have.
func (b *batch) chargesUnknownLimit(image *schema.Image, s plan.Sums, cfg *plan.Config) bool {
	lacks := func(name string) bool {
		return cfg.Index(name) >= 0 && (image == nil || image.Set.Index(name) < 0 || image.Limits[image.Set.Index(name)].Ghost)
	}
	for _, n := range s {
		if n.Adjust > 0 && lacks(n.Name) {
			return true
		}
	}
	for _, o := range b.takes {
		for _, a := range o.Amounts {
			if lacks(a.Name) {
				return true
			}
		}
	}
	return false
}

// oneIncarnation keeps the adjusts that give back to the same incarnation as the first
// one. The others are left.
func oneIncarnation(adjusts []*Op) (kept, left []*Op) {
	for _, o := range adjusts {
		if bytes.Equal(o.Incarnation, adjusts[0].Incarnation) {
			kept = append(kept, o)
		} else {
			left = append(left, o)
		}
	}
	return kept, left
}

func sameConfig(a, b *plan.Config) bool {
	return a == b || string(a.Fingerprint) == string(b.Fingerprint) && a.Override == b.Override
}
