package lane

import (
	"context"
	"log/slog"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
)

// refusalHaste shortens the waits after refusals: the answer to one is as good as a read.
const refusalHaste = 8

// caller is a caller that runs a lane on its goroutine: its context and op.
type caller struct {
	ctx context.Context
	op  *Op
}

// awaitPass waits until the caller's parked lane has its pass. It returns false if another goroutine has to continue.
// Then the op is done, its context or its time for the store has ended, or mostDue has passed. Or the table does not
// answer: the caller might have to stop during its request.
func (c *caller) awaitPass(granted <-chan struct{}, table Table) bool {
	most := mostDue
	if until := c.op.Until; !until.IsZero() {
		most = min(most, time.Until(until))
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-granted:
		return time.Since(table.LastAnswer()) < heldFor
	case <-c.op.Done:
	case <-c.ctx.Done():
	case <-table.Opened():
	case <-timer.C: // the caller looks at its time
	}
	return false
}

// Ask queues an op, or ends it as not written if the bucket does not answer. If the lane works already, it
// returns at once. A lane at rest runs on this goroutine, which carries this op alone, until the op is done or
// ctx ends. Another goroutine then carries the ops that came meanwhile.
func (l *Lane) Ask(ctx context.Context, o *Op) {
	l.mu.Lock()
	rested := l.enqueue(o)
	if l.unlockAndNotify(); !rested {
		return
	}
	own, admitted := &caller{ctx, o}, false
	for {
		t, _, granted := l.beginTurn(own, admitted)
		switch admitted = granted != nil; {
		case admitted && own.awaitPass(granted, l.owner.Table):
			l.Contact.resume()
		case admitted:
			go func() {
				if t := l.nextTurn(granted); t != nil {
					l.run(t)
				}
			}()
			return
		case t == nil || l.carry(t):
			return
		}
	}
}

// run carries turns until nothing but riders is queued: first t, unless it is nil. After a turn of several
// takes it waits for callers that come back at once. Only the goroutine that runs the lane sends its writes and
// replaces its image.
func (l *Lane) run(t *turn) {
	growStack(0)
	for {
		if t == nil {
			if t = l.nextTurn(nil); t == nil {
				return
			}
		}
		several, x := len(t.takes) > 1, t.extra
		l.carry(t)
		if several {
			x.gather.awaitCallers(&l.mu, &l.queue, x.pacer.Load() != nil)
		}
		t = nil
	}
}

// nextTurn waits until the next write may start, and begins a turn. It returns nil if the lane rests. A granted
// that is not nil is closed once the parked lane has its pass; no wait counts as silence of the bucket.
func (l *Lane) nextTurn(granted <-chan struct{}) *turn {
	for {
		admitted := granted != nil
		if admitted {
			<-granted
			l.Contact.resume()
		}
		var t *turn
		var wait time.Duration
		switch t, wait, granted = l.beginTurn(nil, admitted); {
		case granted != nil:
		case wait == 0:
			return t
		default:
			l.Contact.pause(paced)
			l.extra.pacer().pause(wait)
			l.Contact.resume()
		}
	}
}

// beginTurn returns the turn of the next write, with a copy of the lane's memory of the bucket. It marks the
// turn's ops as carried. own is the caller that runs the lane on its goroutine, nil on a goroutine of the
// lane's. admitted means that the lane was parked, and has the pass for this turn. The turn is nil, and this
// goroutine must stop, if only riders are queued or a new goroutine continues in the place of own. The turn is
// nil too if the write must wait for the time wait, or for its pass until granted is closed. beginTurn checks
// the queue and the pace, and takes the ops, under one lock. Otherwise an op queued in between would be written
// too early.
//
//nolint:cyclop // one guard for each reason to begin no turn
func (l *Lane) beginTurn(own *caller, admitted bool) (t *turn, wait time.Duration, granted <-chan struct{}) {
	x := l.extra.Load()
	if x != nil {
		l.owner.unlistPaced(x.endPacing())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	rests := len(l.queue.ops) == int(l.queue.riding)
	if x != nil && !rests {
		wait = x.writeWait()
	}
	leaves := own != nil && (wait > 0 || own.op.state.Load() >= opPending) // the caller waits for its op, not for the lane
	if admitted && (rests || leaves || wait > 0) {
		l.owner.Passes.returnPass(l, false)
	}
	switch {
	case rests:
		l.queue.running = false
		l.owner.Stopped()
		return nil, 0, nil
	case leaves:
		go l.run(nil)
		return nil, 0, nil
	case wait > 0:
		return nil, wait, nil
	case !admitted && !l.owner.Passes.takePass(l):
		l.Contact.pause(parked)
		return nil, 0, l.owner.Passes.parkLane(l, time.Unix(0, l.Contact.heard.Load()))
	}
	if t, _ = spareTurns.Get().(*turn); t == nil {
		t = new(turn)
	}
	*t = turn{owner: l.owner, lane: l, site: l.site()}
	t.known, t.learnt, t.ends = l.Memory.sight, l.Memory.learnt, t.endRoom[:0]
	t.models = &l.owner.Models
	t.batch = l.queue.nextBatch(t.learnt.adjustsOnly)
	t.learnt.adjustsOnly, l.Memory.learnt.adjustsOnly = false, false
	if x != nil || len(t.takes) > 1 {
		t.extra = l.extra.loadOrMake()
		t.paced = t.extra.pacer.Load() != nil
		t.inFlight = t.extra.slotsWithout(t.adjusts)
		l.queue.ops = append(l.queue.ops, t.extra.joinBatch(&t.batch, time.Now())...)
	}
	switch {
	case own == nil:
		t.ctx = context.WithoutCancel(t.first().ctx)
	case len(t.adjusts)+len(t.takes) > 1: // others must not depend on this context
		t.ctx = context.WithoutCancel(t.first().ctx)
		go l.run(t)
		return nil, 0, nil
	default:
		t.byCaller, t.ctx = true, own.ctx
	}
	return t, 0, nil
}

// carry decides a turn, sends its write and books the outcome; a panic ends its ops with an error. It returns
// true if another goroutine goes on, because the caller on whose goroutine the lane runs must be answered
// first. It returns the lane's pass once the turn is over.
func (l *Lane) carry(t *turn) (handed bool) {
	defer func() {
		if handed { // the turn is another goroutine's by now
			return
		}
		l.owner.Passes.returnPass(l, t.flying)
		if !t.aborted { // nothing uses it any more
			*t = turn{} // it keeps no memory alive
			spareTurns.Put(t)
		}
	}()
	guard.Call(func() { handed = l.carryTurn(t) }, func(e *guard.Ended) { l.abort(t, e) })
	return handed
}

// carryTurn decides a turn, sends its write and books the outcome, as carry does, but does not survive a panic.
func (l *Lane) carryTurn(t *turn) (handed bool) {
	if !t.flying {
		writes := t.prepare()
		if len(t.ends) > 0 || len(t.again) > 0 { // they are answered before the write
			l.finishOps(&t.fates)
		}
		if t.trips != nil {
			l.Trip(t.trips)
		}
		if t.leaves {
			l.owner.Passes.returnPass(l, false)
			go l.run(nil)
			return true
		}
		if !writes {
			return false
		}
		t.launch()
	}
	a, over := t.deliver()
	if !over {
		t.byCaller, t.ctx = false, context.WithoutCancel(t.ctx)
		go l.run(t)
		return true
	}
	l.recordAnswer(t, a)
	return false
}

// recordAnswer reports the answer to a turn's write to the trace, counts amounts in doubt, and gives the lane
// the image and the lessons. It ends the ops or puts them back into the queue; refused ones after a pause if
// they were refused more than once.
func (l *Lane) recordAnswer(t *turn, a Answer) {
	if a.own != nil {
		t.learnt.own = tryID(a.own)
	}
	if t.report != nil {
		t.report(a)
	}
	x := l.extra.Load()
	var waiting claims
	switch {
	case x == nil:
	case a.Verdict == ddb.Landed:
		x.noteLanded(t.carried, t.view, t.rows, a)
	case a.Verdict == ddb.Refused:
		waiting = x.claims()
	}
	t.judgeAnswer(a, waiting, time.Now(), l.owner.Patience)
	if len(t.doubt) > 0 {
		l.owner.Doubt(t.doubt)
	}
	refused := t.again
	if t.refused {
		t.again = nil
	}
	if l.finishTurn(t, a) {
		t.site.NoticeForeign()
	}
	if !t.refused {
		return
	}
	if t.worn > 1 {
		ddb.Sleep(t.ctx, Backoff.Wait(t.worn-2)/refusalHaste)
	}
	if x != nil {
		x.noteRefused()
	}
	l.finishOps(&fates{again: refused})
}

// finishTurn updates the lane's memory and slots from the answer, delivers the results of the finished ops and
// puts the others back into the queue, all under l.mu. It returns true if another implementation wrote the
// bucket.
func (l *Lane) finishTurn(t *turn, a Answer) (foreign bool) {
	now := l.owner.NowMS()
	l.mu.Lock()
	defer l.unlockAndNotify()
	if v := &t.view; !t.brings && (v.InFlight != nil || v.Config != nil && (v.Config.Slots || v.Image != nil && v.Image.Set.Slots)) {
		windows := l.owner.SlotsOf(l).noteAnswer(t.rows, a, v.Config)
		for i := range t.ends {
			t.ends[i].result.LandedIn = append(t.ends[i].result.LandedIn, windows...)
		}
	}
	foreign = l.Memory.learnAnswer(&t.decision, a, t.asked, now)
	l.finishOpsLocked(&t.fates)
	if x := l.extra.Load(); x != nil {
		x.armSlots()
	}
	return foreign
}

// finishOps delivers the results of the ops of f that have one, and puts its other ops back into the queue, for
// the next write. It takes l.mu, and empties f.
func (l *Lane) finishOps(f *fates) {
	l.mu.Lock()
	defer l.unlockAndNotify()
	l.finishOpsLocked(f)
}

// finishOpsLocked is finishOps with l.mu held. It also gives the results to the lines, the slots and gather; a
// denial marks the bucket as scarce. Ops that were answered when the lane tripped are skipped, and onOutcome
// gives back the grant of a caller that has left.
func (l *Lane) finishOpsLocked(f *fates) {
	x, won := l.extra.Load(), (*Line)(nil) // the last line whose waiters were served
	for _, e := range f.ends {
		for _, o := range e.ops {
			if o.state.Load() >= opDone { // it was answered when the lane tripped
				continue
			}
			switch {
			case e.result.Denied && !o.Prefetch:
				l.Memory.noteDenial()
			case x != nil && e.result.Err == nil && !e.result.Denied:
				if o.Waiter != nil && x.lineOf(o.Batch) != won {
					won = x.lineOf(o.Batch)
					won.recordWin(e.result.Image, float64(e.result.Now))
				}
				x.noteGrant(o)
			}
			if x != nil {
				x.noteEnd(o, &e.result)
			}
			l.queue.deliverResult(o, e.result)
		}
	}
	for _, o := range f.again {
		l.queue.requeue(o, l.Contact.silent())
	}
	if len(f.lost) > 0 {
		l.extra.loadOrMake().noteLosses(f.lost, l.Memory.sight.image, float64(l.owner.NowMS()))
	}
	l.queue.removeEnded()
	f.ends, f.again, f.lost = f.ends[:0], nil, nil
}

// abort ends every carried op with an error, because the turn did not return: our code, the client or an
// observer panicked, or ended the goroutine. So no caller waits for a stopped lane, and the process goes
// on. A request that was sent may have landed. If the goroutine ends, another one runs the lane.
func (l *Lane) abort(t *turn, e *guard.Ended) {
	l.owner.Log.ErrorContext(context.Background(), "dynalimit: a write of a bucket panicked",
		slog.String("entity", l.Entity), slog.String("resource", l.Resource), slog.Any("panic", e), slog.String("stack", string(e.Stack)))
	if e.Cause == nil {
		defer func() { go l.run(nil) }()
	}
	t.aborted = true
	l.mu.Lock()
	defer l.unlockAndNotify()
	l.Memory.sight.drop() // whatever it saw, look again
	var f fates
	f.endOps(l.queue.carried(), Result{Err: &Failure{Reason: Panicked, Err: e}, Unconfirmed: t.tried})
	l.finishOpsLocked(&f)
}

// growStack makes the stack of a new goroutine large enough for an SDK call at once. The
// runtime would otherwise grow it in steps and copy deep frames each time, which costs
// more than everything else here.
//
//go:noinline
func growStack(i int) byte {
	var room [20 << 10]byte
	return room[i&1]
}
