package lane

import (
	"bytes"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// fates are the results of a turn's ops, as far as they are known. A value: the lane carries it out.
type fates struct {
	ends []ending
	// again are the ops that the next write may carry.
	again []*Op
	// lost are the waiters that tried, but other processes were first.
	lost []*Waiter
	// doubt is the amounts that an earlier unanswered try may have charged, in addition to the ops'
	// results.
	doubt []plan.Signed
	// trips is the error of a bucket that did not answer. leaves means that the context of the caller on
	// whose goroutine the lane runs has ended.
	trips  error
	leaves bool
	// refused means that others wrote first. worn is the largest number of such refusals of an op that
	// is decided again.
	refused bool
	worn    int
}

// ending ends ops with a result.
type ending struct {
	ops    []*Op
	result Result
}

// excluded is a take that does not fit, with the amounts that go before it.
type excluded struct {
	op         *Op
	precedence plan.Precedence
}

// maxShareHalvings bounds the halvings of the share of a contended bucket.
const maxShareHalvings = 3

// decision is the input and the result of a turn's decision: a value without a lane. Its methods are
// pure: they change nothing but the decision and its ops.
type decision struct {
	// batch holds the ops that have not ended yet; the write may carry them.
	batch
	// known is a copy of the lane's sight of the bucket, learnt of its lessons. now is the instant of the
	// decision, in Unix ms. paced means that the lane's writes are spaced.
	known  sight
	learnt lessons
	now    int64
	// models says whether the role may write units and counters by model.
	models *models
	// waiting are the amounts of the waiters in the bucket's line. looked means that the bucket was read just
	// now, because other processes use it.
	waiting       claims
	paced, looked bool
	// view is the bucket under the configuration in force: the basis of the decision.
	view plan.View
	// fates are the results of ops that are known already. endRoom is the room for most of them.
	fates
	endRoom [1]ending
	move
	// room is for the rows of most writes.
	room [2]plan.Row
}

// move is a decided write, and the ops that it carries.
type move struct {
	// carried are the ops of the write, adjusts first, and rows its effect on each limit.
	carried []*Op
	rows    plan.Rows
	write   plan.Write
	// brings means that the write only brings a newer configuration to takes that do not fit, without
	// any of their amounts.
	brings bool
}

// dropMoney removes the part about limits of money from a write that the role refused, and the counters by
// model of its takes. It returns false, and changes nothing, for any other answer.
func dropMoney(a Answer, m *move) bool {
	if !ddb.DeniesAccess(a.Err) {
		return false
	}
	m.write.SetMoney(nil)
	for _, o := range m.carried {
		if o.Take {
			o.Model.Limit = ""
		}
	}
	return true
}

// endOps adds a result of ops to the fates, so that the lane ends them with it. It does nothing without ops.
func (f *fates) endOps(ops []*Op, r Result) {
	if len(ops) > 0 {
		f.ends = append(f.ends, ending{ops, r})
	}
}

// denyTakes adds denials, with the image of a view, of takes that do not fit it to the fates. loses means that
// other processes were first, so that the takes' waiters have lost a try.
func (f *fates) denyTakes(v plan.View, unfit []excluded, loses bool) {
	for _, x := range unfit {
		if loses && x.op.Waiter != nil {
			f.lost = append(f.lost, x.op.Waiter)
		}
		f.endOps([]*Op{x.op}, Result{Denied: true, Image: v.Image, Now: v.Now, Config: v.Config, Before: x.precedence})
	}
}

// chooseWrite decides the write, with its part about money and its notes, and stores it with its ops. It denies
// or postpones takes that do not fit, and ends ops that fail or change nothing. If the write would carry
// nothing, it returns the takes that do not fit, undecided.
func (t *decision) chooseWrite() []excluded {
	ops := t.takes
	if t.looked {
		ops = t.denyAsSeen()
	}
	if len(t.adjusts) > 0 {
		ops = append(slices.Clip(t.adjusts), ops...)
	}
	if len(ops) == 0 {
		return nil
	}
	var room [8]*plan.Ask
	rules := plan.Rules{Tidy: !t.learnt.housekeepingRefused, Crowding: t.known.crowding}
	if !t.paced { // pacing aims at fewer writes that carry more
		rules.Halvings = int(t.learnt.halvings)
	}
	if t.waiting.waits || t.view.Image != nil && t.view.Image.Notes != nil {
		rules.Left = leftTo(t.waiting, ops, t.view.Reading())
	}
	c, carried := plan.Decide(t.view, asksOf(room[:0], ops), t.room[:0], rules), ops
	if c.Carried < len(ops) {
		carried = t.sortByFate(ops)
		left := excludedOf(ops, c.Excluded)
		if c.Carried == 0 {
			return left
		}
		t.postponeTakes(left)
	}
	if c.Write.Kind == plan.Nothing {
		t.endOps(carried, Result{Image: t.view.Image, Now: t.view.Now, Config: t.view.Config})
		return nil
	}
	t.carried, t.rows, t.write = carried, c.Rows, c.Write
	if t.view.Config != nil && t.view.Config.Quotas || t.view.Image != nil && t.view.Image.Set.Quotas {
		t.write.SetMoney(t.view.Money(&t.write, t.rows, asksOf(room[:0], ops), t.models.areForbidden()))
	}
	if t.waiting.waits {
		t.waiting.leaveNotes(&t.write, carried, c.Rows, t.view)
	}
	return nil
}

// sortByFate returns the carried ops. It ends ops of removed limits, adjusts into too deep debt, and prefetches
// of scarce tokens. It counts deferred ops as postponed and leaves them for the next write; denied takes stay
// for the caller.
func (t *decision) sortByFate(ops []*Op) (carried []*Op) {
	for _, o := range ops {
		switch o.Fate {
		case plan.Carried:
			carried = append(carried, o)
		case plan.Unknown:
			t.endOps([]*Op{o}, Result{Err: &Failure{Reason: Outdated, Limit: o.Limit}})
		case plan.TooDeep:
			t.endOps([]*Op{o}, Result{Err: &Failure{Reason: TooDeep, Limit: o.Limit}})
		case plan.NotAhead:
			t.endOps([]*Op{o}, Result{Denied: true})
		case plan.Deferred:
			o.Postponed++
			t.again = append(t.again, o)
		case plan.Denied:
		}
	}
	return carried
}

// leftTo returns a function of an op's index in ops: the amounts to leave to waiters of a lower rank outside
// the write. The function also stores in the op the place in the line whose amounts it may take.
func leftTo(waiting claims, ops []*Op, r plan.Reading) func(i int) plan.Promises {
	return func(i int) plan.Promises {
		var carried []*Waiter
		for _, o := range ops[:i] {
			if o.Waiter != nil && o.Fate == plan.Carried {
				carried = append(carried, o.Waiter)
			}
		}
		r.Batch = ops[i].Batch
		return waiting.leftTo(ops[i].Rank, carried, r, waiting.placeOf(ops[i], ops[:i], r.Now))
	}
}

// excludedOf returns the ops of the excluded asks of a decision, each with the amounts before it. The indexes
// in from are those of ops.
func excludedOf(ops []*Op, from []plan.Excluded) (unfit []excluded) {
	for _, x := range from {
		unfit = append(unfit, excluded{ops[x.Ask], x.Before})
	}
	return unfit
}

// denyAsSeen denies the takes that did not fit at the instant when the bucket was read, and returns the others. It
// returns all if the write brings a configuration. The refill during the read would make room in half of the reads, and
// the write would then be refused.
func (t *decision) denyAsSeen() (takes []*Op) {
	v := t.view
	if v.Adopt || v.Image == nil || !v.Config.Wrote(v.Image) {
		return t.takes
	}
	v.Now = t.known.seenAt
	fit, unfit := splitFitting(v, t.ops(), t.waiting)
	t.denyTakes(v, unfit, true)
	return fit[len(t.adjusts):]
}

// postponeTakes leaves takes that do not fit for the next write, which is decided from the answer to this one.
// A take that was postponed or refused before is denied by a recent image, because a caller of Acquire does not
// wait in line.
func (t *decision) postponeTakes(left []excluded) {
	var unfit []excluded
	recent := t.known.fresh(t.view.Now) && !t.view.Adopt
	for _, x := range left {
		if !recent || x.op.Postponed == 0 && x.op.Refusals == 0 {
			x.op.Postponed++
			t.again = append(t.again, x.op)
			continue
		}
		unfit = append(unfit, x)
	}
	t.denyTakes(t.view, unfit, false)
}

// splitFitting separates the takes that do not fit a view, each with the amounts before it, from all other ops,
// in their order. It sets the fate of each op, in which a removed limit or too deep debt shows.
func splitFitting(v plan.View, ops []*Op, waiting claims) (fit []*Op, unfit []excluded) {
	var room [8]*plan.Ask
	var rules plan.Rules
	if waiting.waits || v.Image != nil && v.Image.Notes != nil {
		rules.Left = leftTo(waiting, ops, v.Reading())
	}
	c := plan.Admit(v, asksOf(room[:0], ops), nil, rules)
	for _, o := range ops {
		if o.Fate != plan.Denied {
			fit = append(fit, o)
		}
	}
	return fit, excludedOf(ops, c.Excluded)
}

// MaxRefusals bounds how often an op is decided again.
const MaxRefusals = 24

// judgeAnswer decides the fates of a write's ops by its answer, and the lessons for the next write.
// waiting are the amounts of the bucket's line, and patience is the time for ops without a deadline of their own.
//
//	landed     its ops end with the image
//	refused    takes that did not fit the bucket of the answer are denied; the others are
//	           decided again, up to MaxRefusals times; a prefetch is dropped, and amounts
//	           of tries that may still land are in doubt
//	throttled  all are decided again after a pause
//	else       all fail, or are in doubt
//
// A write that only brought a newer configuration carried nothing of its ops: they are decided again
// under it.
func (t *decision) judgeAnswer(a Answer, waiting claims, now time.Time, patience time.Duration) {
	if !t.brings {
		t.learnt.housekeepingRefused = t.write.Housekeeping && a.Verdict != ddb.Landed
	}
	switch {
	case a.Verdict == ddb.Throttled:
		t.putOff(t.carried, a.Err, now, patience)
	case a.Verdict != ddb.Landed && a.Verdict != ddb.Refused:
		r := a.unwritten()
		r.Unconfirmed = r.Unconfirmed && !t.brings
		if r.Unconfirmed {
			t.addHiddenDoubt(t.carried, a)
		}
		t.endOps(t.carried, r)
	case t.brings:
		t.decideAgain(t.carried)
	case a.Verdict == ddb.Landed:
		if a.hidden > 0 {
			t.addHiddenDoubt(t.carried, a)
		}
		t.learnt.halvings = max(0, t.learnt.halvings-1)
		r := Result{Image: a.Image, Now: t.view.Now, Config: t.view.Config, Err: a.Err}
		if a.later {
			r.LandedIn = t.write.LandedIn(a.Image)
		}
		t.ends = append(t.ends, ending{t.carried, r})
	default:
		t.judgeRefusal(a, waiting)
	}
}

// judgeRefusal decides the fates of a refused write's ops: prefetches and takes that no longer fit are denied,
// and the others are decided again. Ops whose caller is answered end as unconfirmed if an earlier try may still
// land. It also updates the lessons for the next write, and adds the charges of such tries to t.doubt.
func (t *decision) judgeRefusal(a Answer, waiting claims) {
	left := t.carried
	t.learnt.adjustsOnly, t.learnt.halvings = !left[0].Take, min(t.learnt.halvings+1, maxShareHalvings)
	if a.hidden > 0 { // they may still land, and a retry might charge those whose callers were answered twice
		var pending []*Op
		pending, left = splitOps(left, func(o *Op) bool { return o.state.Load() == opPending })
		t.endOps(pending, Result{Err: unconfirmed(writeBucket), Unconfirmed: true})
	}
	prefetches, left := splitOps(left, func(o *Op) bool { return o.Prefetch })
	t.endOps(prefetches, Result{Denied: true, Unconfirmed: a.hidden > 0})
	t.addHiddenDoubt(left, a)
	t.decideAgain(t.denyUnfit(left, a, waiting))
}

// putOff leaves the ops of a throttled request for the next write, and stores err in each. It ends with err
// those whose time for the store is over: their caller's time, or patience since their first throttling if they
// have none.
func (t *decision) putOff(ops []*Op, err error, now time.Time, patience time.Duration) {
	var ended []*Op
	for _, o := range ops {
		if o.throttledBy.Store(&err); o.Until.IsZero() {
			o.Until = now.Add(patience)
		}
		if now.Before(o.Until) {
			t.again = append(t.again, o)
		} else {
			ended = append(ended, o)
		}
	}
	t.endOps(ended, Result{Err: err})
}

// addHiddenDoubt adds the charges of ops to t.doubt, once for each of a.hidden. These are the unanswered tries
// that may have landed besides the answered one.
func (t *decision) addHiddenDoubt(ops []*Op, a Answer) {
	for range a.hidden {
		for _, o := range ops {
			t.doubt = plan.Plus(t.doubt, o.charged())
		}
	}
}

// denyUnfit denies the takes of a refused write that do not fit the bucket of the answer, and returns the others. It
// judges at the instant of the decision. It returns all if the answer shows no bucket, or one under another
// configuration. At a later instant, each of many processes would find room in the refill since, and they would keep
// refusing each other.
func (t *decision) denyUnfit(ops []*Op, a Answer, waiting claims) []*Op {
	if !a.Seen || a.Image == nil || !t.view.Config.Wrote(a.Image) {
		return ops
	}
	v := plan.View{Image: a.Image, Config: t.view.Config, Now: t.view.Now, InFlight: t.view.InFlight}
	fit, unfit := splitFitting(v, ops, waiting)
	t.denyTakes(v, unfit, true)
	return fit
}

// decideAgain counts a refusal of each op and leaves the op for the next write. It sets t.refused, and raises
// t.worn to the most refusals. Ops refused 24 times end with the reason Contended.
func (t *decision) decideAgain(ops []*Op) {
	t.refused = true
	var exhausted []*Op
	for _, o := range ops {
		if o.Refusals++; o.Refusals >= MaxRefusals {
			exhausted = append(exhausted, o)
			continue
		}
		t.worn = max(t.worn, o.Refusals)
		t.again = append(t.again, o)
	}
	t.endOps(exhausted, Result{Err: &Failure{Reason: Contended}})
}

// learnAnswer updates the memory by the answer to the lane's write, and takes its lessons over. Without an
// image in the answer, the known image becomes stale, except after most throttled writes. It returns true if
// another implementation wrote the bucket; mu must be held.
func (m *Memory) learnAnswer(t *decision, a Answer, asked, now int64) (foreign bool) {
	switch {
	case a.Seen && a.Verdict == ddb.Landed:
		foreign = m.learn(a.Image, asked, now, t.rows)
	case a.Seen:
		foreign = m.learn(a.Image, asked, now, nil)
	case a.Verdict != ddb.Throttled:
		m.sight.markStale()
	default: // nothing landed, and the sight is as good as before; but little left is read before the next write
		m.sight.scarce = true
		if plan.IsShared(m.sight.shared, now) && m.sight.isLow(t.carried) {
			m.sight.markStale()
		}
	}
	if t.write.Kind != plan.GiveBack && (a.Verdict == ddb.Landed || a.Verdict == ddb.Refused) {
		m.sight.learnCrowding(&t.write, a.Verdict == ddb.Landed, a.Image, now)
	}
	m.learnt = t.learnt
	return foreign
}

// prepareAdjusts drops give-backs to a bucket that is gone, and limits the adjusts to those that one write can
// carry. done is true for a turn that only gives back, which it decides, or has no ops. writes then means that
// it has a write. lost means that give-backs may be of another bucket than the image's, and sure returns the
// latest time that has surely passed, in Unix ms.
func (t *decision) prepareAdjusts(lost bool, sure func() int64) (done, writes bool) {
	if lost || !t.known.known {
		t.dropLostRefunds()
	}
	if len(t.adjusts)+len(t.takes) == 0 {
		return true, false
	}
	if len(t.adjusts) > 1 {
		var later []*Op
		t.adjusts, later = limitAdjusts(t.adjusts)
		t.again = append(t.again, later...)
	}
	if t.charges() {
		return false, false
	}
	return true, t.planGiveBack(sure)
}

// dropLostRefunds marks give-backs to another incarnation than the image's as dropped, and ends adjusts that
// charge nothing besides. If no image is known, it keeps the adjusts of the first one's incarnation and leaves
// the others for the next write. It does nothing if the bucket does not exist.
func (t *decision) dropLostRefunds() {
	if !t.known.known {
		var later []*Op
		first := t.adjusts[0]
		t.adjusts, later = splitOps(t.adjusts, func(o *Op) bool { return bytes.Equal(o.Incarnation, first.Incarnation) })
		t.again = append(t.again, later...)
		return
	}
	image := t.known.image
	if image == nil {
		return
	}
	kept := t.adjusts[:0]
	for _, o := range t.adjusts {
		o.RefundDropped = o.RefundDropped || o.refundsOtherIncarnation(image)
		if o.RefundDropped && !o.charges {
			t.endOps(o.asList(), Result{Image: image, Now: t.now, Config: o.cfg})
			continue
		}
		kept = append(kept, o)
	}
	t.adjusts = kept
}

// planGiveBack plans a write that only gives tokens back. It skips limits that the bucket no longer has. It returns
// false, and ends the adjusts, if nothing is left or the bucket is gone. sure returns the latest time that has surely
// passed, in Unix ms.
func (t *decision) planGiveBack(sure func() int64) bool {
	g := &schema.GiveBack{Incarnation: t.adjusts[0].Incarnation}
	v := plan.View{Config: t.cfg, Now: t.now}
	if t.known.known && t.known.image != nil {
		v.Image, g.Set = t.known.image, t.known.image.Set
	}
	quotas := v.Config != nil && v.Config.Quotas || v.Image != nil && v.Image.Set.Quotas
	if quotas {
		v.Now = plan.Unopened(v.Image, v.Config, sure(), t.now)
	}
	var room [8]*plan.Ask
	rows := v.GiveBackRows(asksOf(room[:0], t.adjusts), t.room[:0])
	for i := range rows {
		if l, ok := rows[i].GivenBack(t.known.known); ok {
			g.Limits = append(g.Limits, l)
		}
	}
	if len(g.Limits) == 0 {
		t.endOps(t.adjusts, Result{Image: t.known.image, Now: v.Now, Config: v.Config})
		return false
	}
	t.view = v
	w := plan.Write{Kind: plan.GiveBack, GiveBack: g}
	if quotas {
		w.SetMoney(v.Money(&w, rows, asksOf(room[:0], t.adjusts), t.models.areForbidden()))
	}
	t.move = move{rows: rows, carried: t.adjusts, write: w}
	return true
}
