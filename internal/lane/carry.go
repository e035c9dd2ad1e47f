package lane

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// MaxRefusals bounds how often an op is decided again.
	MaxRefusals = 24
	// maxShareHalvings is how often the share of a contended bucket is halved.
	maxShareHalvings = 3
	// refusalHaste shortens the waits after refusals: the answer to one is as
	// good as a read.
	refusalHaste = 8
	// laterAfter is the number of refusals after which an adjust is written so
	// that it commutes with claims.
	laterAfter = 2
)

// carry decides one batch and sends its write. Ops that it does not end stay in the
// queue. handed means that another goroutine runs the lane from now on, because the
// driver has to answer its caller.
func (l *Lane) carry(dr driver, b batch) (handed bool) {
	ctx := dr.of(&b)
	l.batchSent = false
	wary, err := l.lookFirst(ctx, b)
	if err != nil {
		return l.fail(dr, b.ops(), err)
	}
	if b.adjusts = l.dropLostRefunds(b.adjusts); len(b.adjusts)+len(b.takes) == 0 {
		return false
	}
	s := make(plan.Sums, 0, 4)
	b.adjusts = l.addAdjusts(b.adjusts, &s)
	if !b.charges() {
		return l.giveBack(ctx, dr, b, s)
	}
	v, err := l.view(ctx, &l.sight, b, s)
	if err != nil && ofConfiguration(err) && len(b.takes) > 0 {
		l.finish(b.takes, Result{Err: err})
		l.requeue(b.adjusts)
		return false
	}
	if err != nil {
		return l.fail(dr, b.ops(), err)
	}
	b.takes = l.endUnknownLimits(v, b.takes)
	b.adjusts, s = l.refuseDebt(v, b.adjusts, s)
	if wary {
		b.takes = l.denyUnfitAsSeen(v, b)
	}
	if len(b.adjusts)+len(b.takes) == 0 {
		return false
	}
	return l.carryFitting(ctx, dr, v, b, s)
}

// lookFirst reads the bucket if the batch cannot be decided from what is known of it, or
// should not be. wary means that it should not be.
func (l *Lane) lookFirst(ctx context.Context, b batch) (wary bool, err error) {
	if wary = l.wary(b.takes); wary || l.needsRead(b) {
		err = l.look(ctx)
	}
	return wary, err
}

// needsRead reports whether the bucket has to be read before the batch can be decided.
func (l *Lane) needsRead(b batch) bool {
	return !l.sight.known && b.charges() || l.refundsNeedRead(b.adjusts)
}

// endUnknownLimits ends the takes whose limits are neither in the bucket nor in the
// configuration in force. It returns the others.
func (l *Lane) endUnknownLimits(v plan.View, takes []*Op) []*Op {
	if !slices.ContainsFunc(takes, func(o *Op) bool { return v.Lacks(o.Amounts) }) {
		return takes
	}
	var known []*Op
	for _, o := range takes {
		if !v.Lacks(o.Amounts) {
			known = append(known, o)
			continue
		}
		l.finish([]*Op{o}, Result{Err: outdated(v, o.Amounts)})
	}
	return known
}

// fail ends ops whose bucket or configuration could not be read. If the read failed
// because the driver's context ended, the ops continue without the driver.
func (l *Lane) fail(dr driver, ops []*Op, err error) (handed bool) {
	if dr.ended() {
		l.handOver(func() { l.requeue(ops) })
		return true
	}
	if throttling(err) {
		l.throttled(true, 0)
		l.putOff(ops, err)
		return false
	}
	l.finish(ops, Result{Err: err})
	if silent(err) {
		l.Trip(err)
	}
	return false
}

// carryFitting carries the adjusts and as many takes as fit, in their order.
func (l *Lane) carryFitting(ctx context.Context, dr driver, v plan.View, b batch, s plan.Sums) (handed bool) {
	known := l.snapshot()
	d := choose(&known, v, queue{adjusts: b.adjusts, takes: b.takes, sums: s, heads: l.Line.heads(), shareHalvings: l.halvings(), mayHousekeep: !l.housekeepingRefused})
	if len(d.dropped) > 0 {
		l.finish(d.dropped, Result{Denied: true})
	}
	switch {
	case len(d.carried) == 0 && len(d.left) == 0:
		return false
	case len(d.carried) == 0:
		return l.deny(ctx, dr, v, d.left)
	}
	l.postpone(v, d)
	for _, o := range b.adjusts {
		o.noteDropped(v)
	}
	l.stampPrefetches(d.admitted)
	if d.write.Kind == plan.Nothing {
		l.finish(d.carried, Result{Image: v.Image, Now: v.Now, Config: v.Config})
		return false
	}
	carried, housekeeping, adjusts := d.carried, d.write.Housekeeping, len(b.adjusts) > 0
	return l.write(ctx, dr, d.write, d.sums, carried, func(a Answer) { l.settleWrite(carried, v, housekeeping, a, adjusts) })
}

// halvings is how often the share that one write takes is halved: not at all while
// the lane is paced, for fewer writes that carry more is what it is paced for.
func (l *Lane) halvings() int {
	if l.pacer.Load() != nil {
		return 0
	}
	return int(l.shareHalvings)
}

// postpone leaves takes for the next write, which is decided from the answer to this
// one. A take that was left once already, and does not fit a recent image beside those
// before it, is denied: a caller of Acquire does not wait in line.
func (l *Lane) postpone(v plan.View, c decision) {
	next := c.deferred
	for _, o := range next {
		o.postponed++
	}
	denied := Result{Denied: true, Image: v.Image, Now: v.Now, Config: v.Config}
	recent := l.sight.fresh(v.Now) && !v.Adopt
	for _, x := range c.left {
		if !recent || x.op.postponed == 0 && x.op.refusals == 0 {
			x.op.postponed++
			next = append(next, x.op)
			continue
		}
		denied.Before = x.precedence
		l.finish([]*Op{x.op}, denied)
	}
	if len(next) > 0 {
		l.requeue(next)
	}
}

// deny ends takes that do not fit, on a state that is known to be recent; else
// it looks once, and leaves them for the next round.
func (l *Lane) deny(ctx context.Context, dr driver, v plan.View, unfit []excluded) (handed bool) {
	ops := make([]*Op, len(unfit))
	for i := range unfit {
		ops[i] = unfit[i].op
	}
	if !l.sight.fresh(v.Now) && slices.ContainsFunc(ops, func(o *Op) bool { return !o.bucketRead }) {
		if err := l.look(ctx); err != nil {
			return l.fail(dr, ops, err)
		}
		for _, o := range ops {
			o.bucketRead = true
		}
		l.requeue(ops)
		return false
	}
	if v.Adopt && v.Image != nil { // the newer configuration arrives with the denial
		l.markNotCarried(ops)
		return l.write(ctx, dr, v.Plan(nil, plan.Rules{}), nil, ops, func(a Answer) { l.afterClaim(ops, a) })
	}
	denied := Result{Denied: true, Image: v.Image, Now: v.Now, Config: v.Config}
	for _, x := range unfit {
		denied.Before = x.precedence
		l.finish([]*Op{x.op}, denied)
	}
	return false
}

// afterClaim goes on with takes that do not fit once a claim, that carried nothing of
// theirs, brought the newer configuration, or did not.
func (l *Lane) afterClaim(left []*Op, a Answer) {
	switch a.Verdict {
	case ddb.Landed, ddb.Refused:
		l.requeue(l.countRefusal(left))
	case ddb.Throttled:
		l.putOff(left, a.Err)
	default:
		r := l.resultUnwritten(a)
		r.Unconfirmed = false
		l.finish(left, r)
	}
}

// markNotCarried notes that the write contains nothing of these ops.
func (l *Lane) markNotCarried(ops []*Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range ops {
		o.notCarried = true
	}
}

// write sends a plan and calls onAnswer with its answer.
func (l *Lane) write(ctx context.Context, dr driver, p plan.Write, s plan.Sums, carried []*Op, onAnswer func(Answer)) (handed bool) {
	d := &delivery{kind: p.Kind, plan: p, carried: carried, givesBack: s.HasBack() && p.Kind != plan.Create}
	if p.Kind == plan.Create {
		p.Create.Keys, p.Create.Entity, p.Create.Resource = l.owner.Keys, l.Entity, l.Resource
	}
	return l.send(ctx, dr, d, s, onAnswer)
}

// send delivers a write, keeps the image that the answer shows and calls onAnswer. If
// the driver's context ends meanwhile, another goroutine does the rest.
func (l *Lane) send(ctx context.Context, dr driver, d *delivery, s plan.Sums, onAnswer func(Answer)) (handed bool) {
	d.operation = l.owner.IDs.Operation()
	if l.owner.OnSend != nil {
		l.owner.OnSend(l, d.operation, s)
	}
	l.prepare(d)
	end := l.beginTrace(&ctx, d)
	asked := l.owner.Ask()
	d.driven = dr.ctx != nil
	l.pacer.Load().start()
	for _, o := range d.carried {
		o.markSent()
	}
	a, ended := l.deliver(ctx, d)
	if !ended {
		l.applyAnswer(d, a, asked, s, end, onAnswer)
		return false
	}
	ctx, d.driven = context.WithoutCancel(ctx), false
	l.handOver(func() {
		a, _ := l.deliver(ctx, d)
		l.applyAnswer(d, a, asked, s, end, onAnswer)
	})
	return true
}

// applyAnswer updates what the lane knows by a write's answer, then calls onAnswer.
func (l *Lane) applyAnswer(d *delivery, a Answer, asked Asked, s plan.Sums, end, onAnswer func(Answer)) {
	if end != nil {
		end(a)
	}
	if a.Verdict == ddb.Landed {
		l.pacer.Load().landed(s)
	}
	switch {
	case a.Seen && a.Verdict == ddb.Landed:
		l.learn(a.Image, asked, s)
	case a.Seen:
		l.learn(a.Image, asked, nil)
	case a.Verdict == ddb.Throttled: // nothing landed: what is known is as good as before
		l.noteThrottled(d.carried)
	default:
		l.markStale()
	}
	if d.kind != plan.GiveBack {
		l.Meet(&d.plan, a.Verdict, a.Image)
	}
	onAnswer(a)
}

// beginTrace tells the tracer that a write begins. The function it returns tells it of
// the end.
func (l *Lane) beginTrace(ctx *context.Context, d *delivery) (end func(Answer)) {
	if l.owner.Trace == nil {
		return nil
	}
	began := l.owner.NowMS()
	under, ended := l.owner.Trace.Begin(*ctx, Writing{l.Entity, l.Resource, d.kind, len(d.carried)})
	*ctx = under
	return func(a Answer) { ended(a, time.Duration(l.owner.NowMS()-began)*time.Millisecond) }
}

// allAbandoned reports whether nobody waits for the ops any more: they are takes whose
// callers have left or, if the bucket was silent meanwhile, ops whose callers were told so.
func (l *Lane) allAbandoned(ops []*Op, silent bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range ops {
		if !(o.take && o.abandoned) && !(silent && o.state == opPending) {
			return false
		}
	}
	return true
}

// allOutOfTime reports whether every op has used up its time for the store. The takes of
// callers who have left have none.
func (l *Lane) allOutOfTime(ops []*Op) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range ops {
		abandoned := o.take && o.abandoned
		if !abandoned && (o.Until.IsZero() || now.Before(o.Until)) {
			return false
		}
	}
	return true
}

// giveBack sends a write that only gives tokens back. A limit that the bucket does not
// have any more gets nothing back; neither does a bucket that is gone.
func (l *Lane) giveBack(ctx context.Context, dr driver, b batch, s plan.Sums) (handed bool) {
	g := schema.GiveBack{Incarnation: b.adjusts[0].incarnation}
	for _, n := range s {
		if l.sight.known && !l.sight.image.Holds(n.Name) {
			continue
		}
		if n.Back > 0 || n.Late < 0 {
			g.Limits = append(g.Limits, schema.GiveBackLimit{Name: n.Name, Amount: n.Back, Lapsed: -n.Late, Passed: n.PassedBack})
		}
	}
	now := l.owner.NowMS()
	if len(g.Limits) == 0 {
		l.finish(b.adjusts, Result{Image: l.sight.image, Now: now, Config: b.config()})
		return false
	}
	d := &delivery{kind: plan.GiveBack, giveBack: g, carried: b.adjusts, givesBack: true}
	v := plan.View{Now: now, Config: b.config()}
	return l.send(ctx, dr, d, s, func(a Answer) { l.settleWrite(b.adjusts, v, false, a, true) })
}
