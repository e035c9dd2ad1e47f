package dynalimit

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// maxRefusals bounds how often an op is decided again.
	maxRefusals = 24
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
func (l *lane) carry(dr driver, b batch) (handed bool) {
	ctx := dr.of(&b)
	l.wrote = false
	if !l.sight.known && b.charges() || l.strays(b.adjusts) {
		if err := l.look(ctx); err != nil {
			return l.fail(dr, b.ops(), err)
		}
	}
	if l.bereft(b) {
		l.finish(b.adjusts, result{lost: true})
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
		l.finish(b.takes, result{err: err})
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

// turnBack ends the takes of limits that neither the bucket nor the configuration
// in force has, and returns the others.
func (l *lane) turnBack(v plan.View, takes []*op) []*op {
	if !slices.ContainsFunc(takes, func(o *op) bool { return v.Lacks(o.amounts) }) {
		return takes
	}
	var known []*op
	for _, o := range takes {
		if !v.Lacks(o.amounts) {
			known = append(known, o)
			continue
		}
		l.finish([]*op{o}, result{err: outdated(v, o.amounts)})
	}
	return known
}

// outdated is the failure of amounts of which one is of a limit that there is no
// more.
func outdated(v plan.View, amounts []plan.Signed) *failure {
	f := &failure{reason: failedOutdated}
	for _, a := range amounts {
		if _, known := v.Room(a.Name, 0); !known {
			f.limit = a.Name
			break
		}
	}
	return f
}

// fail ends ops whose bucket or configuration could not be read; when that is
// because the driver's context ended, they go on without it.
func (l *lane) fail(dr driver, ops []*op, err error) (handed bool) {
	if dr.ended() {
		l.handOver(func() { l.requeue(ops) })
		return true
	}
	l.finish(ops, result{err: err})
	if silent(err) {
		l.trip(err)
	}
	return false
}

// admit carries the adjusts and as many takes as fit, in their order.
func (l *lane) admit(ctx context.Context, dr driver, v plan.View, b batch, s plan.Sums) (handed bool) {
	known := l.glance()
	d := choose(&known, v, queue{adjusts: b.adjusts, takes: b.takes, sums: s, heads: l.heads(), halved: l.halved, tidy: !l.tidied})
	if len(d.carried) == 0 {
		return l.deny(ctx, dr, v, d.left)
	}
	l.postpone(v, d)
	for _, o := range b.adjusts {
		o.dropsIn(v)
	}
	if d.write.Kind == plan.Nothing {
		l.finish(d.carried, result{image: v.Image, now: v.Now, cfg: v.Config})
		return false
	}
	carried, housekeeping, adjusts := d.carried, d.write.Housekeeping, len(b.adjusts) > 0
	return l.write(ctx, dr, d.write, d.sums, carried, func(a answer) { l.settle(carried, v, housekeeping, a, adjusts) })
}

// postpone leaves takes for the next write, to be decided from this one's answer.
// What was left behind once already, and does not fit a recent image beside those
// that go first, is denied: nobody who asks not to wait waits in line.
func (l *lane) postpone(v plan.View, c decision) {
	next := c.spared
	for _, o := range next {
		o.passed++
	}
	denied := result{denied: true, image: v.Image, now: v.Now, cfg: v.Config}
	recent := l.sight.fresh(v.Now) && !v.Adopt
	for _, x := range c.left {
		if !recent || x.op.passed == 0 && x.op.refusals == 0 {
			x.op.passed++
			next = append(next, x.op)
			continue
		}
		denied.before = x.before
		l.finish([]*op{x.op}, denied)
	}
	if len(next) > 0 {
		l.requeue(next)
	}
}

// deny ends takes that do not fit, on a state that is known to be recent; else
// it looks once, and leaves them for the next round.
func (l *lane) deny(ctx context.Context, dr driver, v plan.View, out []excluded) (handed bool) {
	left := make([]*op, len(out))
	for i := range out {
		left[i] = out[i].op
	}
	if !l.sight.fresh(v.Now) && slices.ContainsFunc(left, func(o *op) bool { return !o.looked }) {
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
		return l.write(ctx, dr, v.Plan(nil, plan.Rules{}), nil, left, func(a answer) {
			if a.verdict != ddb.Landed && a.verdict != ddb.Refused {
				r := l.unwritten(a)
				r.unknown = false // the claim carried nothing of theirs
				l.finish(left, r)
				return
			}
			l.requeue(l.refuse(left))
		})
	}
	denied := result{denied: true, image: v.Image, now: v.Now, cfg: v.Config}
	for _, x := range out {
		denied.before = x.before
		l.finish([]*op{x.op}, denied)
	}
	return false
}

// unburden notes that the write carries nothing of the ops.
func (l *lane) unburden(ops []*op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range ops {
		o.unburdened = true
	}
}

// write sends a plan, and calls then with its answer.
func (l *lane) write(ctx context.Context, dr driver, p plan.Write, s plan.Sums, carried []*op, then func(answer)) (handed bool) {
	d := &delivery{kind: p.Kind, plan: p, carried: carried, backs: s.HasBack() && p.Kind != plan.Create}
	if p.Kind == plan.Create {
		p.Create.Keys, p.Create.Entity, p.Create.Resource = l.owner.keys, l.entity, l.resource
	}
	return l.send(ctx, dr, d, s, then)
}

// send delivers a write, remembers what its answer shows and calls then. When
// the driver's context ends meanwhile, that happens without it.
func (l *lane) send(ctx context.Context, dr driver, d *delivery, s plan.Sums, then func(answer)) (handed bool) {
	d.operation = l.owner.ids.operation()
	if l.owner.onSend != nil {
		l.owner.onSend(l, d.operation, s)
	}
	l.prepare(d)
	end := l.begin(&ctx, d)
	asked := l.owner.nowMS()
	d.driven = dr.ctx != nil
	a, ended := l.deliver(ctx, d)
	if !ended {
		l.arrive(d, a, asked, end, then)
		return false
	}
	ctx, d.driven = context.WithoutCancel(ctx), false
	l.handOver(func() {
		a, _ := l.deliver(ctx, d)
		l.arrive(d, a, asked, end, then)
	})
	return true
}

// arrive takes a write's answer.
func (l *lane) arrive(d *delivery, a answer, asked int64, end, then func(answer)) {
	if end != nil {
		end(a)
	}
	if a.seen {
		l.learn(a.image, asked)
	} else {
		l.markStale()
	}
	if d.kind != plan.GiveBack {
		l.meet(&d.plan, a.verdict, a.image)
	}
	then(a)
}

// begin tells who traces of a write; what it returns tells of its end.
func (l *lane) begin(ctx *context.Context, d *delivery) (end func(answer)) {
	if l.owner.trace == nil {
		return nil
	}
	began := l.owner.nowMS()
	under, ended := l.owner.trace.Begin(*ctx, writing{l.entity, l.resource, d.kind, len(d.carried)})
	*ctx = under
	return func(a answer) { ended(a, time.Duration(l.owner.nowMS()-began)*time.Millisecond) }
}

// deserted reports whether nobody wants the ops any more: all are takes whose
// callers have gone without them.
func (l *lane) deserted(ops []*op) bool {
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
func (l *lane) impatient(ops []*op) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range ops {
		gone := o.take && o.abandoned
		if !gone && (o.until.IsZero() || now.Before(o.until)) {
			return false
		}
	}
	return true
}

// settle ends the ops of a write by its answer, or queues them again.
func (l *lane) settle(carried []*op, v plan.View, housekeeping bool, a answer, adjusts bool) {
	l.tidied = housekeeping && a.verdict != ddb.Landed
	switch a.verdict {
	case ddb.Landed:
		l.halved = max(0, l.halved-1)
		l.finish(carried, result{image: a.image, now: v.Now, cfg: v.Config, err: a.err})
	case ddb.Refused:
		carried = l.leaveInDoubt(carried, a)
		l.alone = adjusts
		l.halved = min(l.halved+1, maxHalved)
		l.requeue(l.refuse(l.turnAway(carried, v, a)))
	default:
		l.finish(carried, l.unwritten(a))
	}
}

// unwritten is what comes of ops whose write did not land, or may not have.
func (l *lane) unwritten(a answer) result {
	if a.verdict == ddb.Conflicted { // answered each time
		return result{err: &failure{reason: failedContended}}
	}
	return result{err: a.err, unknown: a.verdict == ddb.Ambiguous}
}

// leaveInDoubt ends the ops of callers who have gone on, when an earlier try went
// unanswered and may yet land: charged again, they might be charged twice. It
// returns the others.
func (l *lane) leaveInDoubt(carried []*op, a answer) []*op {
	if !a.unsure {
		return carried
	}
	var doubted, others []*op
	l.mu.Lock()
	for _, o := range carried {
		if o.state == opPending {
			doubted = append(doubted, o)
		} else {
			others = append(others, o)
		}
	}
	l.mu.Unlock()
	l.finish(doubted, result{err: unconfirmed(writeBucket), unknown: true})
	return others
}

// turnAway denies the takes of a refused write that did not fit the state it met,
// at the instant they were decided for, and returns the others. Else, of many
// processes, each would find that the refill of its round trip has made room, and
// they would refuse each other for as long as they outnumber it.
func (l *lane) turnAway(carried []*op, v plan.View, a answer) []*op {
	if !a.seen || a.image == nil || !v.Config.Wrote(a.image) {
		return carried
	}
	v = plan.NewView(a.image, v.Config, plan.Current, v.Now)
	var s plan.Sums
	heads := l.heads()
	again := make([]*op, 0, len(carried))
	for _, o := range carried {
		if o.take {
			if left := promised(heads, o.rank, again, v.Reading()); !v.Fits(o.amounts, s, left) {
				l.finish([]*op{o}, result{denied: true, image: a.image, now: v.Now, cfg: v.Config, before: plan.Precedence{Taken: s.Taken(), Left: left}})
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
func (l *lane) refuse(ops []*op) []*op {
	worst := 0
	var worn, again []*op
	for _, o := range ops {
		if o.refusals++; o.refusals >= maxRefusals {
			worn = append(worn, o)
			continue
		}
		worst = max(worst, o.refusals)
		again = append(again, o)
	}
	if len(worn) > 0 {
		l.finish(worn, result{err: &failure{reason: failedContended}})
	}
	if worst > 1 {
		ddb.Sleep(context.Background(), writeBackoff.Wait(worst-2)/refusalHaste)
	}
	return again
}

// giveBack sends a write that only returns tokens. Limits that the bucket no
// longer has drop their refund, as does a bucket that is gone.
func (l *lane) giveBack(ctx context.Context, dr driver, b batch, s plan.Sums) (handed bool) {
	g := schema.GiveBack{Incarnation: b.adjusts[0].incarnation}
	for _, n := range s {
		if l.sight.known && !l.sight.image.Holds(n.Name) {
			continue
		}
		if n.Back > 0 {
			g.Limits = append(g.Limits, schema.GiveBackLimit{Name: n.Name, Amount: n.Back})
		}
	}
	now := l.owner.nowMS()
	if len(g.Limits) == 0 {
		l.finish(b.adjusts, result{image: l.sight.image, now: now, cfg: b.config()})
		return false
	}
	d := &delivery{kind: plan.GiveBack, giveBack: g, carried: b.adjusts, backs: true}
	v := plan.View{Now: now, Config: b.config()}
	return l.send(ctx, dr, d, s, func(a answer) { l.settle(b.adjusts, v, false, a, true) })
}
