package lane

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// refusalHaste shortens the waits after refusals: the answer to one is as good as a read.
const refusalHaste = 8

// sending is a decided write in flight, with its ops: its answer ends them, or they are decided again.
// It belongs to the goroutine that drives the lane, and can be handed to another one between two tries.
type sending struct {
	move
	lane     *Lane
	by       driver
	ctx      context.Context
	delivery delivery
	asked    Asked
	// tried means that a request was sent.
	tried bool
	// ended reports the end to the tracer; nil without a tracer.
	ended func(Answer)
}

// begin prepares the delivery, and reports the start of the write.
func (w *sending) begin() {
	l := w.lane
	w.delivery = delivery{operation: l.owner.IDs.Operation(), slot: l.owner.IDs.Slot, creates: w.write.Kind == plan.Create, givesBack: w.givesBack}
	if w.write.Kind == plan.Create {
		c := w.write.Create
		c.Keys, c.Entity, c.Resource = l.owner.Keys, l.Entity, l.Resource
	}
	if l.owner.OnSend != nil {
		l.owner.OnSend(l, w.delivery.operation, w.rows)
	}
	w.delivery.prepare(l.sight.image, &l.learnt.own)
	if l.owner.Trace != nil {
		w.ctx, w.ended = l.owner.Trace.Begin(w.ctx, Writing{l.Entity, l.Resource, w.write.Kind, len(w.carried)})
	}
	w.asked = l.owner.Ask()
	if p := l.pacer.Load(); p != nil {
		p.start()
	}
	for _, o := range w.carried {
		if o.sent != nil {
			o.markSent()
		}
	}
}

// deliver sends the write until its outcome is known, and books the answer. It returns false if the
// driver must answer its caller first, because its ctx ended or the bucket does not answer. The
// delivery can then go on without it.
func (w *sending) deliver() (delivered bool) {
	d, l := &w.delivery, w.lane
	for ; ; d.try++ {
		waited := l.Contact.silent()
		if waited && w.by.ctx != nil {
			return false // a driver answers its caller
		}
		if waited && !l.Contact.await(l.owner.life) {
			return w.book(d.orUnconfirmed(d.unsent()))
		}
		abandoned := (d.try > 0 || waited) && w.abandoned(waited)
		switch {
		case d.unanswered > 0 && (abandoned || d.unanswered >= MaxUnconfirmed): // ask for the outcome of those tries
			image, _, err := l.owner.access(l).readPatiently(w.ctx, l.sight.hint())
			return w.book(d.found(image, err))
		case abandoned:
			return w.book(d.unsent())
		}
		began := time.Now()
		sent := w.sendTry(d.op())
		took := time.Since(began)
		if sent.Err == nil {
			l.Contact.NoteAnswer()
		} else {
			w.noteFailure(sent, took)
		}
		a, then := d.book(sent, took)
		tripped := then.silent && l.Trip(sent.Err)
		switch {
		case then.over:
			return w.book(a)
		case tripped:
			continue
		case then.silent || d.try+1 >= MaxTries || w.outOfTime(): // after Close nothing probes the bucket, and nothing is kept
			return w.book(d.orUnconfirmed(a))
		case !Backoff.Pause(w.ctx, d.try): // only a driver's context ends
			d.try++
			return false
		}
	}
}

// sendTry sends the write once.
func (w *sending) sendTry(o schema.Op) Answer {
	l := w.lane
	w.tried = true
	if w.delivery.creates {
		w.write.Create.OpID = o.ID
		return l.owner.Store.Create(w.ctx, w.write.Create, l.sight.hint(), o.Slot)
	}
	return l.owner.Store.Update(w.ctx, l.Key(), w.write.Statement(o), l.sight.hint(), o.Slot)
}

// noteFailure records whether the bucket answered, or throttled, a failed try.
func (w *sending) noteFailure(sent Answer, took time.Duration) {
	if !silent(sent.Err) && heard(sent.Err) {
		w.lane.Contact.NoteAnswer()
	}
	if sent.Verdict == ddb.Throttled {
		w.by.throttled(false, took, sent.Err)
	}
}

// abandoned reports whether no caller waits for the ops any more. They are takes whose callers have
// left or, if the bucket was silent meanwhile, ops whose callers have been answered.
func (w *sending) abandoned(silent bool) bool {
	w.lane.mu.Lock()
	defer w.lane.mu.Unlock()
	for _, o := range w.carried {
		if !(o.Take && o.abandoned) && !(silent && o.state == opPending) {
			return false
		}
	}
	return true
}

// outOfTime reports whether every op has used up its time for the store. Takes without a caller have no
// time left.
func (w *sending) outOfTime() bool {
	now := time.Now()
	w.lane.mu.Lock()
	defer w.lane.mu.Unlock()
	for _, o := range w.carried {
		abandoned := o.Take && o.abandoned
		if !abandoned && (o.Until.IsZero() || now.Before(o.Until)) {
			return false
		}
	}
	return true
}

// book updates the lane's sight by the answer, then ends the ops, or puts them back into the queue. It
// returns true: the write is delivered.
func (w *sending) book(a Answer) bool {
	l := w.lane
	if a.own != nil {
		l.learnt.own.set(a.own)
	}
	if w.ended != nil {
		w.ended(a)
	}
	if p := l.pacer.Load(); p != nil && a.Verdict == ddb.Landed {
		p.landed(w.rows)
	}
	switch {
	case a.Seen && a.Verdict == ddb.Landed:
		l.learn(a.Image, w.asked, w.rows)
	case a.Seen:
		l.learn(a.Image, w.asked, nil)
	default:
		w.learnNothing(a)
	}
	if w.write.Kind != plan.GiveBack {
		l.NoteWriters(&w.write, a.Verdict, a.Image)
	}
	w.settle(a)
	return true
}

// learnNothing handles an answer without an image. After throttling nothing landed, and the sight is as
// good as before. But if the bucket had little left for the ops, it is read before the next write,
// however young the image.
func (w *sending) learnNothing(a Answer) {
	l := w.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Verdict != ddb.Throttled {
		l.sight.markStale()
		return
	}
	l.sight.scarce = true
	if plan.IsShared(l.sight.shared, l.owner.NowMS()) && l.sight.low(w.carried) {
		l.sight.markStale()
	}
}

// settle ends the ops by the answer, or puts them back into the queue, after a pause if they
// were refused more than once.
func (w *sending) settle(a Answer) {
	l := w.lane
	var heads []head
	if l.Line.Waited() {
		heads = l.Line.heads()
	}
	s := judge(&w.move, a, heads, w.pending)
	if !w.brings {
		l.learnt.housekeepingRefused = w.write.Housekeeping && a.Verdict != ddb.Landed
	}
	l.learnt.halvings = min(max(0, l.learnt.halvings+s.halvings), maxShareHalvings)
	l.learnt.adjustsOnly = s.adjustsOnly
	if l.Ahead != nil && a.Verdict == ddb.Landed {
		l.Ahead.count(w.carried, w.view, a)
	}
	if len(s.doubt) > 0 {
		l.owner.Doubt(s.doubt)
	}
	for _, e := range s.ends {
		l.finish(e.ops, e.result)
	}
	if len(s.lost) > 0 {
		l.Line.Lost(s.lost...)
	}
	if len(s.putOff) > 0 {
		w.by.putOff(s.putOff, a.Err)
	}
	if !s.refused {
		return
	}
	if s.worn > 1 {
		ddb.Sleep(context.Background(), Backoff.Wait(s.worn-2)/refusalHaste)
	}
	if p := l.pacer.Load(); p != nil {
		p.refused()
	}
	l.requeue(s.again)
}

// pending reports whether an op's caller was answered while its write is in flight.
func (w *sending) pending(o *Op) bool {
	w.lane.mu.Lock()
	defer w.lane.mu.Unlock()
	return o.state == opPending
}
