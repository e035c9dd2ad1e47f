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
	// maxHalved is how often the share of a contended bucket is halved.
	maxHalved = 3
	// refusalHaste shortens the waits after refusals: the answer to one is as
	// good as a read.
	refusalHaste = 8
	// laterAfter is the number of refusals after which an adjust is written so
	// that it commutes with claims.
	laterAfter = 2
)

// carry decides and sends one batch. What it does not end stays queued. handed
// says that the driver's caller has to be answered, and that another goroutine
// runs the lane.
func (l *Lane) carry(dr driver, b batch) (handed bool) {
	ctx := dr.of(&b)
	l.wrote = false
	if l.blind(b) {
		if err := l.look(ctx); err != nil {
			return l.fail(dr, b.ops(), err)
		}
	}
	if l.bereft(b) {
		l.finish(b.adjusts, Result{lost: true})
		return false
	}
	if b.adjusts = l.sift(b.adjusts); len(b.adjusts)+len(b.takes) == 0 {
		return false
	}
	s := make(plan.Sums, 0, 4)
	b.adjusts = l.summed(b.adjusts, &s)
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
	b.takes = l.turnBack(v, b.takes)
	if b.adjusts, s = l.refuseDebt(v, b.adjusts, s); len(b.adjusts)+len(b.takes) == 0 {
		return false
	}
	return l.admit(ctx, dr, v, b, s)
}

// blind reports whether the bucket has to be read before the batch can be decided.
func (l *Lane) blind(b batch) bool {
	return !l.sight.known && b.charges() || l.strays(b.adjusts)
}

// turnBack ends the takes of limits that neither the bucket nor the configuration
// in force has, and returns the others.
func (l *Lane) turnBack(v plan.View, takes []*Op) []*Op {
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

// fail ends ops whose bucket or configuration could not be read; when that is
// because the driver's context ended, they go on without it.
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

// admit carries the adjusts and as many takes as fit, in their order.
func (l *Lane) admit(ctx context.Context, dr driver, v plan.View, b batch, s plan.Sums) (handed bool) {
	known := l.glance()
	d := choose(&known, v, queue{adjusts: b.adjusts, takes: b.takes, sums: s, heads: l.heads(), halved: l.halved, tidy: !l.tidied})
	if len(d.forgone) > 0 {
		l.finish(d.forgone, Result{Denied: true})
	}
	switch {
	case len(d.carried) == 0 && len(d.left) == 0:
		return false
	case len(d.carried) == 0:
		return l.deny(ctx, dr, v, d.left)
	}
	l.postpone(v, d)
	for _, o := range b.adjusts {
		o.dropsIn(v)
	}
	l.sendAhead(d.admitted)
	if d.write.Kind == plan.Nothing {
		l.finish(d.carried, Result{Image: v.Image, Now: v.Now, Config: v.Config})
		return false
	}
	carried, housekeeping, adjusts := d.carried, d.write.Housekeeping, len(b.adjusts) > 0
	return l.write(ctx, dr, d.write, d.sums, carried, func(a Answer) { l.settle(carried, v, housekeeping, a, adjusts) })
}

// postpone leaves takes for the next write, to be decided from this one's answer.
// What was left behind once already, and does not fit a recent image beside those
// that go first, is denied: nobody who asks not to wait waits in line.
func (l *Lane) postpone(v plan.View, c decision) {
	next := c.spared
	for _, o := range next {
		o.passed++
	}
	denied := Result{Denied: true, Image: v.Image, Now: v.Now, Config: v.Config}
	recent := l.sight.fresh(v.Now) && !v.Adopt
	for _, x := range c.left {
		if !recent || x.op.passed == 0 && x.op.refusals == 0 {
			x.op.passed++
			next = append(next, x.op)
			continue
		}
		denied.Before = x.before
		l.finish([]*Op{x.op}, denied)
	}
	if len(next) > 0 {
		l.requeue(next)
	}
}

// deny ends takes that do not fit, on a state that is known to be recent; else
// it looks once, and leaves them for the next round.
func (l *Lane) deny(ctx context.Context, dr driver, v plan.View, out []excluded) (handed bool) {
	left := make([]*Op, len(out))
	for i := range out {
		left[i] = out[i].op
	}
	if !l.sight.fresh(v.Now) && slices.ContainsFunc(left, func(o *Op) bool { return !o.looked }) {
		if err := l.look(ctx); err != nil {
			return l.fail(dr, left, err)
		}
		for _, o := range left {
			o.looked = true
		}
		l.requeue(left)
		return false
	}
	if v.Adopt && v.Image != nil { // the newer configuration arrives with the denial
		l.unburden(left)
		return l.write(ctx, dr, v.Plan(nil, plan.Rules{}), nil, left, func(a Answer) { l.claimed(left, a) })
	}
	denied := Result{Denied: true, Image: v.Image, Now: v.Now, Config: v.Config}
	for _, x := range out {
		denied.Before = x.before
		l.finish([]*Op{x.op}, denied)
	}
	return false
}

// claimed goes on with takes that do not fit once a claim, that carried nothing of
// theirs, brought the newer configuration, or did not.
func (l *Lane) claimed(left []*Op, a Answer) {
	switch a.Verdict {
	case ddb.Landed, ddb.Refused:
		l.requeue(l.refuse(left))
	case ddb.Throttled:
		l.putOff(left, a.Err)
	default:
		r := l.unwritten(a)
		r.Unconfirmed = false
		l.finish(left, r)
	}
}

// unburden notes that the write carries nothing of the ops.
func (l *Lane) unburden(ops []*Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range ops {
		o.unburdened = true
	}
}

// write sends a plan, and calls then with its answer.
func (l *Lane) write(ctx context.Context, dr driver, p plan.Write, s plan.Sums, carried []*Op, then func(Answer)) (handed bool) {
	d := &delivery{kind: p.Kind, plan: p, carried: carried, backs: s.HasBack() && p.Kind != plan.Create}
	if p.Kind == plan.Create {
		p.Create.Keys, p.Create.Entity, p.Create.Resource = l.owner.Keys, l.Entity, l.Resource
	}
	return l.send(ctx, dr, d, s, then)
}

// send delivers a write, remembers what its answer shows and calls then. When
// the driver's context ends meanwhile, that happens without it.
func (l *Lane) send(ctx context.Context, dr driver, d *delivery, s plan.Sums, then func(Answer)) (handed bool) {
	d.operation = l.owner.IDs.Operation()
	if l.owner.OnSend != nil {
		l.owner.OnSend(l, d.operation, s)
	}
	l.prepare(d)
	end := l.begin(&ctx, d)
	asked := l.owner.NowMS()
	d.driven = dr.ctx != nil
	l.paceBy(func(p plan.Pacing) plan.Pacing { return p.Start(l.owner.passed()) })
	for _, o := range d.carried {
		o.goesOut()
	}
	a, ended := l.deliver(ctx, d)
	if !ended {
		l.arrive(d, a, asked, s, end, then)
		return false
	}
	ctx, d.driven = context.WithoutCancel(ctx), false
	l.handOver(func() {
		a, _ := l.deliver(ctx, d)
		l.arrive(d, a, asked, s, end, then)
	})
	return true
}

// arrive takes a write's answer.
func (l *Lane) arrive(d *delivery, a Answer, asked int64, s plan.Sums, end, then func(Answer)) {
	if end != nil {
		end(a)
	}
	if a.Verdict == ddb.Landed {
		l.paceBy(func(p plan.Pacing) plan.Pacing { return p.Take(s) })
	}
	if a.Seen {
		l.learn(a.Image, asked)
	} else {
		l.markStale()
	}
	if d.kind != plan.GiveBack {
		l.Meet(&d.plan, a.Verdict, a.Image)
	}
	then(a)
}

// begin tells who traces of a write; what it returns tells of its end.
func (l *Lane) begin(ctx *context.Context, d *delivery) (end func(Answer)) {
	if l.owner.Trace == nil {
		return nil
	}
	began := l.owner.NowMS()
	under, ended := l.owner.Trace.Begin(*ctx, Writing{l.Entity, l.Resource, d.kind, len(d.carried)})
	*ctx = under
	return func(a Answer) { ended(a, time.Duration(l.owner.NowMS()-began)*time.Millisecond) }
}

// deserted reports whether nobody wants the ops any more: all are takes whose
// callers have gone without them.
func (l *Lane) deserted(ops []*Op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range ops {
		if !o.take || !o.abandoned {
			return false
		}
	}
	return true
}

// impatient reports whether the time of every op for the store is over; those of
// callers who have gone have none left.
func (l *Lane) impatient(ops []*Op) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range ops {
		gone := o.take && o.abandoned
		if !gone && (o.Until.IsZero() || now.Before(o.Until)) {
			return false
		}
	}
	return true
}

// settle ends the ops of a write by its answer, or queues them again.
func (l *Lane) settle(carried []*Op, v plan.View, housekeeping bool, a Answer, adjusts bool) {
	l.tidied = housekeeping && a.Verdict != ddb.Landed
	switch a.Verdict {
	case ddb.Landed:
		l.halved = max(0, l.halved-1)
		l.countTraffic(carried, v, a)
		l.finish(carried, Result{Image: a.Image, Now: v.Now, Config: v.Config, Err: a.Err})
	case ddb.Refused:
		carried = l.forgo(l.leaveInDoubt(carried, a), a.unconfirmed)
		l.alone = adjusts
		l.halved = min(l.halved+1, maxHalved)
		l.requeue(l.refuse(l.turnAway(carried, v, a)))
	case ddb.Throttled:
		l.putOff(carried, a.Err)
	default:
		l.finish(carried, l.unwritten(a))
	}
}

// unwritten is what comes of ops whose write did not land, or may not have.
func (l *Lane) unwritten(a Answer) Result {
	if a.Verdict == ddb.Conflicted { // answered each time
		return Result{Err: &Failure{Reason: Contended}}
	}
	return Result{Err: a.Err, Unconfirmed: a.Verdict == ddb.Unconfirmed}
}

// leaveInDoubt ends the ops of callers who have gone on, when an earlier try went
// unanswered and may yet land: charged again, they might be charged twice. It
// returns the others.
func (l *Lane) leaveInDoubt(carried []*Op, a Answer) []*Op {
	if !a.unconfirmed {
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

// turnAway denies the takes of a refused write that did not fit the state it met,
// at the instant they were decided for, and returns the others. Else, of many
// processes, each would find that the refill of its round trip has made room, and
// they would refuse each other for as long as they outnumber it.
func (l *Lane) turnAway(carried []*Op, v plan.View, a Answer) []*Op {
	if !a.Seen || a.Image == nil || !v.Config.Wrote(a.Image) {
		return carried
	}
	v = plan.NewView(a.Image, v.Config, plan.Current, v.Now)
	var s plan.Sums
	heads := l.heads()
	again := make([]*Op, 0, len(carried))
	for _, o := range carried {
		if o.take {
			if left := promised(heads, o.Rank, again, v.Reading()); !v.Fits(o.Amounts, s, left) {
				l.finish([]*Op{o}, Result{Denied: true, Image: a.Image, Now: v.Now, Config: v.Config, Before: plan.Precedence{Taken: s.Taken(), Left: left}})
				continue
			}
		}
		o.addTo(&s)
		again = append(again, o)
	}
	return again
}

// refuse counts a refusal of the ops, ends those that were refused too often and
// returns the others.
func (l *Lane) refuse(ops []*Op) []*Op {
	worst := 0
	var worn, again []*Op
	for _, o := range ops {
		if o.refusals++; o.refusals >= MaxRefusals {
			worn = append(worn, o)
			continue
		}
		worst = max(worst, o.refusals)
		again = append(again, o)
	}
	if len(worn) > 0 {
		l.finish(worn, Result{Err: &Failure{Reason: Contended}})
	}
	if worst > 1 {
		ddb.Sleep(context.Background(), Backoff.Wait(worst-2)/refusalHaste)
	}
	l.paceBy(func(p plan.Pacing) plan.Pacing { return p.Again(l.owner.passed()) })
	return again
}

// giveBack sends a write that only returns tokens. Limits that the bucket no
// longer has drop their refund, as does a bucket that is gone.
func (l *Lane) giveBack(ctx context.Context, dr driver, b batch, s plan.Sums) (handed bool) {
	g := schema.GiveBack{Incarnation: b.adjusts[0].incarnation}
	for _, n := range s {
		if l.sight.known && !l.sight.image.Holds(n.Name) {
			continue
		}
		if n.Back > 0 || n.Late < 0 {
			g.Limits = append(g.Limits, schema.GiveBackLimit{Name: n.Name, Amount: n.Back, Lapsed: -n.Late})
		}
	}
	now := l.owner.NowMS()
	if len(g.Limits) == 0 {
		l.finish(b.adjusts, Result{Image: l.sight.image, Now: now, Config: b.config()})
		return false
	}
	d := &delivery{kind: plan.GiveBack, giveBack: g, carried: b.adjusts, backs: true}
	v := plan.View{Now: now, Config: b.config()}
	return l.send(ctx, dr, d, s, func(a Answer) { l.settle(b.adjusts, v, false, a, true) })
}
