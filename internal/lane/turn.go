package lane

import (
	"context"
	"log/slog"
	"slices"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// maxShareHalvings bounds the halvings of the share of a contended bucket.
const maxShareHalvings = 3

// turn decides one batch of a lane from the sight of the bucket, and sends its write. Ops that it does
// not end go back into the queue. It belongs to the goroutine that drives the lane.
type turn struct {
	lane *Lane
	by   driver
	// ctx is the context of the requests.
	ctx context.Context
	// batch holds the ops that have not ended yet; the write may carry them.
	batch
	// room is for the rows of most writes.
	room [2]plan.Row
	// view is the basis of the write's decision.
	view plan.View
	// sending is the write in flight; nil before it.
	sending *sending
	// over means that the turn did not return, and that its ops have ended.
	over bool
}

func newTurn(by driver, b batch) *turn {
	t := &turn{lane: by.lane, by: by, ctx: by.ctx, batch: b}
	if t.ctx == nil {
		t.ctx = context.WithoutCancel(b.first().ctx)
	}
	return t
}

// carry decides the batch and sends its write. handed means that another goroutine runs the lane from
// now on, because the driver must answer its caller.
func (t *turn) carry() (handed bool) {
	guard.Call(func() {
		if t.sending, handed = t.prepare(); t.sending == nil {
			return
		}
		w := t.sending
		if w.begin(); w.deliver() {
			return
		}
		w.by, w.ctx = driver{lane: t.lane}, context.WithoutCancel(w.ctx)
		go w.by.goOn(t, func() { w.deliver() })
		handed = true
	}, t.ended)
	return handed
}

// prepare decides the batch. It returns its write, nil if there is nothing to write.
func (t *turn) prepare() (w *sending, handed bool) {
	l := t.lane
	wary := l.sight.shared != 0 && t.wary() // an unshared bucket costs no read of the clock
	if wary || (!l.sight.known || len(t.adjusts) > 0) && t.mustRead() {
		if err := t.look(); err != nil {
			return nil, t.fail(t.ops(), err)
		}
	}
	if len(t.adjusts) > 0 {
		t.dropLostRefunds()
		if t.size() == 0 {
			return nil, false
		}
		if len(t.adjusts) > 1 {
			t.limitAdjusts()
		}
		if !t.charges() {
			return t.giveBack(), false
		}
	}
	v, err := l.owner.access(l).view(t.ctx, &l.sight, &t.batch)
	if err != nil && ofConfiguration(err) && len(t.takes) > 0 {
		l.finish(t.takes, Result{Err: err})
		l.requeue(t.adjusts)
		return nil, false
	}
	if err != nil {
		return nil, t.fail(t.ops(), err)
	}
	t.view = v
	return t.choose(wary)
}

// mustRead reports whether the batch cannot be decided from the image.
func (t *turn) mustRead() bool {
	s := &t.lane.sight
	return !s.known && t.charges() || s.known && t.refundsUnseen(s.image)
}

// wary reports whether to read a bucket that other processes use, before a write of takes.
func (t *turn) wary() bool {
	if len(t.takes) == 0 {
		return false
	}
	s := &t.lane.sight
	now := t.lane.owner.NowMS()
	tries := t.lane.Line.tries()
	if tries == 0 && s.fresh(now) {
		return false
	}
	known := t.lane.snapshot()
	return known.wary(t.takes, tries, now)
}

// look reads the bucket for the lane.
func (t *turn) look() error {
	image, asked, err := t.lane.owner.access(t.lane).read(t.ctx, t.lane.sight.hint())
	if err == nil {
		t.lane.learn(image, asked, nil)
	}
	return err
}

// fail ends ops whose bucket or configuration could not be read. If the read failed because the
// driver's context ended, the ops continue without the driver.
func (t *turn) fail(ops []*Op, err error) (handed bool) {
	if t.by.ended() {
		go t.by.goOn(t, func() { t.lane.requeue(ops) })
		return true
	}
	if throttling(err) {
		t.by.throttled(true, 0, err)
		t.by.putOff(ops, err)
		return false
	}
	t.lane.finish(ops, Result{Err: err})
	if silent(err) {
		t.lane.Trip(err)
	}
	return false
}

// dropLostRefunds drops give-backs to a bucket that is gone. If no image is known, one
// write gives back to one incarnation only, and the others are left for the next write.
func (t *turn) dropLostRefunds() {
	s := &t.lane.sight
	if !s.known {
		var later []*Op
		t.adjusts, later = oneIncarnation(t.adjusts)
		t.lane.requeue(later)
		return
	}
	if s.image == nil {
		return
	}
	kept := t.adjusts[:0]
	for _, o := range t.adjusts {
		o.RefundDropped = o.RefundDropped || o.refundsOtherIncarnation(s.image)
		if o.RefundDropped && !o.charges() {
			t.lane.finish(o.asList(), Result{Image: s.image, Now: t.lane.owner.NowMS(), Config: o.cfg})
			continue
		}
		kept = append(kept, o)
	}
	t.adjusts = kept
}

// limitAdjusts keeps as many adjusts, in their order, as one write can carry. The others go back into
// the queue. One write gives back tokens of one window of a quota only. Ordinals do not show which
// window has ended if the unit or the kind changed in between.
func (t *turn) limitAdjusts() {
	sums := make(plan.Rows, 0, 4)
	for i, o := range t.adjusts {
		if i > 0 && (sums.Overflows(o.Amounts) || sums.OfOtherWindows(o.Amounts)) {
			t.lane.requeue(t.adjusts[i:])
			t.adjusts = t.adjusts[:i]
			return
		}
		o.AddTo(&sums)
	}
}

// choose decides which ops ride in the write. wary means that the bucket was just read.
func (t *turn) choose(wary bool) (w *sending, handed bool) {
	l := t.lane
	f := facts{
		adjusts: t.adjusts, takes: t.takes, room: t.room[:0], view: t.view, known: l.snapshot(), looked: wary,
		shareHalvings: t.halvings(), mayHousekeep: !l.learnt.housekeepingRefused,
	}
	if l.Line.Waited() {
		f.heads = l.Line.heads()
	}
	d := decide(f)
	for _, e := range d.ends {
		l.finish(e.ops, e.result)
	}
	if len(d.lost) > 0 {
		l.Line.Lost(d.lost...)
	}
	if len(d.again) > 0 {
		l.requeue(d.again)
	}
	if len(d.left) > 0 {
		return t.deny(d.left)
	}
	if len(d.move.carried) == 0 {
		return nil, false
	}
	for _, o := range d.move.carried {
		if o.Prefetch { // the age of its tokens counts from now
			o.debited = l.owner.elapsed()
		}
	}
	return t.write(d.move), false
}

// halvings is how often the share of one write is halved: not at all while the lane is paced, because
// pacing aims at fewer writes that carry more.
func (t *turn) halvings() int {
	if t.lane.pacer.Load() != nil {
		return 0
	}
	return int(t.lane.learnt.halvings)
}

// deny ends takes that do not fit a recent image. If the image is not recent, it reads the bucket once
// and leaves them for the next round.
func (t *turn) deny(unfit []excluded) (w *sending, handed bool) {
	ops := make([]*Op, len(unfit))
	for i := range unfit {
		ops[i] = unfit[i].op
	}
	v := t.view
	if !t.lane.sight.fresh(v.Now) && slices.ContainsFunc(ops, func(o *Op) bool { return !o.bucketRead }) {
		if err := t.look(); err != nil {
			return nil, t.fail(ops, err)
		}
		for _, o := range ops {
			o.bucketRead = true
		}
		t.lane.requeue(ops)
		return nil, false
	}
	if v.Adopt && v.Image != nil { // the newer configuration arrives with the denial
		t.markNotCarried(ops)
		return t.write(move{view: v, carried: ops, write: v.Plan(nil, plan.Rules{}), brings: true}), false
	}
	t.by.denyAll(unfit, v)
	return nil, false
}

// markNotCarried marks ops of which the write has no amounts.
func (t *turn) markNotCarried(ops []*Op) {
	t.lane.mu.Lock()
	defer t.lane.mu.Unlock()
	for _, o := range ops {
		o.notCarried = true
	}
}

// giveBack returns a write that only gives tokens back. It skips limits that the bucket no longer has.
// It is nil if nothing is left, or if the bucket is gone.
func (t *turn) giveBack() *sending {
	g, s := &schema.GiveBack{Incarnation: t.adjusts[0].Incarnation}, &t.lane.sight
	v := plan.View{Config: t.config()}
	if s.known {
		v.Image = s.image
	}
	v.Now = plan.DecidedAt(v.Image, v.Config, t.lane.owner.SureMS, t.lane.owner.NowMS())
	var room [8]*plan.Ask
	rows := v.Sums(asksOf(room[:0], t.adjusts), t.room[:0])
	for i := range rows {
		if l, ok := rows[i].GivenBack(s.known); ok {
			g.Limits = append(g.Limits, l)
		}
	}
	if len(g.Limits) == 0 {
		t.lane.finish(t.adjusts, Result{Image: s.image, Now: v.Now, Config: v.Config})
		return nil
	}
	return t.write(move{
		view: v, rows: rows, carried: t.adjusts, write: plan.Write{Kind: plan.GiveBack, GiveBack: g}, adjusts: true, givesBack: true,
	})
}

// write is a write of the turn.
func (t *turn) write(m move) *sending {
	return &sending{move: m, lane: t.lane, by: t.by, ctx: t.ctx}
}

// ended ends every carried op with an error, because the turn did not return: our code, the client or
// an observer panicked, or ended the goroutine. So no caller waits for a stopped lane, and the process
// goes on. A request that was sent may have landed. If the goroutine ends, another one runs the lane.
func (t *turn) ended(e *guard.Ended) {
	if t.over {
		return
	}
	t.over = true
	l, err := t.lane, &Failure{Reason: Panicked, Err: e}
	l.owner.Log.ErrorContext(context.Background(), "panic in a lane",
		slog.String("entity", l.Entity), slog.String("resource", l.Resource), slog.Any("panic", e), slog.String("stack", string(e.Stack)))
	l.mu.Lock()
	carried := l.queue.carried()
	l.sight.drop() // whatever it saw, look again
	l.mu.Unlock()
	if e.Cause == nil {
		defer func() { go driver{lane: l}.run() }()
	}
	l.finish(carried, Result{Err: err, Unconfirmed: t.sending != nil && t.sending.tried})
}
