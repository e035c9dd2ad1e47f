package lane

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// turn is one batch of a lane: its ops, a copy of the knowledge that decides them, the decision, and the write in
// flight. Lane.beginTurn fills it, prepare decides it, launch gives the write its id, deliver sends it, and
// Lane.recordAnswer books the outcome in the lane. It belongs to the goroutine that runs the lane. Between two tries
// it can move to another one, as a whole: a copy would send a give-back twice.
type turn struct {
	owner *Registry
	lane  *Lane
	site  site
	// extra are the lane's extra parts as of beginTurn.
	extra *extra
	// ctx is the context of the requests: that of the caller, while the lane runs on its goroutine.
	ctx context.Context
	// inFlight are the slots of the process's open calls, without those that the adjusts end; nil without slots.
	inFlight *plan.InFlight
	decision
	flight
	// aborted means that the turn did not return.
	aborted bool
}

// spareTurns has the memory of ended turns, more than a kilobyte each, for later ones.
var spareTurns sync.Pool

// prepare reads the bucket or its configuration if what is known is missing or old, and decides the turn. It
// stores the write, and the results of ops that the write does not carry. It returns false if there is nothing
// to write, also after a failed read.
func (t *turn) prepare() bool {
	t.now = t.owner.NowMS()
	stale := int64(0)
	if t.extra != nil {
		stale = t.extra.staleFor(t.takes, t.known.image, t.now)
	}
	t.looked = t.known.shared != 0 && len(t.takes) > 0 &&
		t.known.isWary(t.takes, stale, t.now) // other processes use the bucket: it is read first if little is left and the image is old
	var lost, untried bool // give-backs of other buckets than the image's, and those that no refused write had yet
	if t.known.known {
		for _, o := range t.adjusts {
			if o.isUnplaced(t.known.image) {
				lost, untried = true, untried || o.Refusals == 0
			}
		}
	}
	if t.looked || untried || !t.known.known && t.charges() || t.inFlight != nil && lacksSlots(&t.known, &t.batch, t.inFlight, t.now) {
		if err := t.readBucket(); err != nil {
			t.failOps(t.ops(), err)
			return false
		}
		lost = true
	}
	if len(t.adjusts) > 0 {
		if done, writes := t.prepareAdjusts(lost, t.owner.SureMS); done {
			return writes
		}
	}
	var err error
	if t.view, err = t.site.View(t.ctx, &t.known, &t.batch, t.now); err != nil {
		t.failView(err)
		return false
	}
	t.view.InFlight = t.inFlight
	if t.extra != nil {
		t.waiting = t.extra.claims()
	}
	if left := t.chooseWrite(); len(left) > 0 {
		return t.denyLeft(left)
	}
	return len(t.carried) > 0
}

// readBucket reads the bucket once, and updates the lane's memory, the turn's copy of it, and t.now. It logs
// once that another implementation writes the bucket. After an error it changes nothing.
func (t *turn) readBucket() error {
	image, asked, err := t.site.Read(t.ctx, t.known.hint())
	if err != nil {
		return err
	}
	var foreign bool
	if t.known, foreign = t.lane.Memory.learnRead(image, asked); foreign {
		t.site.NoticeForeign()
	}
	t.now = t.owner.NowMS()
	return nil
}

// failView ends the turn's ops with err because the configuration in force cannot be read or used. If it can be
// read but not used, only the takes end, and the adjusts are left for the next write.
func (t *turn) failView(err error) {
	if isOfConfiguration(err) && len(t.takes) > 0 {
		t.endOps(t.takes, Result{Err: err})
		t.again = append(t.again, t.adjusts...)
		return
	}
	t.failOps(t.ops(), err)
}

// denyLeft denies takes that do not fit a recent image. If the image is not recent, it reads the bucket once
// and leaves them for the next turn. It returns true if it has stored a write, which brings a newer
// configuration with the denial.
func (t *turn) denyLeft(left []excluded) bool {
	ops := make([]*Op, len(left))
	for i := range left {
		ops[i] = left[i].op
	}
	v := t.view
	if !t.known.fresh(v.Now) && slices.ContainsFunc(ops, func(o *Op) bool { return !o.bucketRead }) {
		if err := t.readBucket(); err != nil {
			t.failOps(ops, err)
			return false
		}
		for _, o := range ops {
			o.bucketRead = true
		}
		t.again = append(t.again, ops...)
		return false
	}
	if v.Adopt && v.Image != nil { // the newer configuration arrives with the denial
		for _, o := range ops {
			o.notCarried.Store(true)
		}
		v.InFlight = nil // nothing of the process's
		t.move = move{carried: ops, write: v.Plan(nil, plan.Rules{}), brings: true}
		if v.Config.Quotas || v.Image.Set.Quotas {
			t.write.SetMoney(v.Money(&t.write, nil, nil, t.models.areForbidden()))
		}
		return true
	}
	t.denyTakes(v, left, false)
	return false
}

// flight is a turn's write from its first try to its answer.
type flight struct {
	delivery delivery
	// hint is the set of limits that the answer will probably show; nil if no image is known.
	hint *schema.LimitSet
	// asked is the instant of the decision, in Unix ms.
	asked int64
	// flying means that the write was decided, and tried that a request was sent. byCaller means that the
	// lane runs on the goroutine of a caller.
	flying, tried, byCaller bool
	// report reports the answer to the tracer; nil without a tracer.
	report func(Answer)
}

// launch gives the write its id and its rule for retries, and sends nothing. It reports the start to OnSend,
// the trace and the callers that wait on NotifySent.
func (t *turn) launch() {
	owner, at := t.owner, t.site.Bucket
	t.flying, t.asked = true, max(t.now, t.view.Now) // the view may be newer, after a read of the configuration
	if t.known.image != nil {
		t.hint = t.known.image.Set
	}
	t.delivery.operation, t.delivery.slot = owner.IDs.Last.Add(1), owner.IDs.Slot
	switch t.write.Kind {
	case plan.Create:
		c := t.write.Create
		c.Keys, c.Entity, c.Resource = owner.Keys, at.Entity, at.Resource
		t.delivery.creates = true
	case plan.GiveBack:
		t.delivery.givesBack = true
	default:
		t.delivery.givesBack = !t.carried[0].Take && t.rows.HasBack() || t.view.InFlight != nil && t.rows.MovesSlots()
	}
	if owner.OnSend != nil {
		owner.OnSend(t.lane, t.delivery.operation, t.rows)
	}
	if t.delivery.givesBack {
		t.delivery.bindToSlot(t.known.image, t.learnt.own)
	}
	if owner.Trace != nil {
		t.ctx, t.report = owner.Trace.Begin(t.ctx, Writing{at.Entity, at.Resource, t.write.Kind, len(t.carried), t.known.image})
		if !t.byCaller { // no caller can go on without the turn when an observer's context ends
			t.ctx = context.WithoutCancel(t.ctx)
		}
	}
	if t.extra != nil {
		t.extra.noteStart(t.carried, t.site.elapsed())
	}
	for _, o := range t.carried {
		if o.sent != nil {
			o.markSent()
		}
	}
}

// deliver sends the write until its outcome is known. over is false if the caller that runs the lane must be
// answered first, because its context ended or the bucket does not answer. The delivery
// can then go on without it.
func (t *turn) deliver() (a Answer, over bool) {
	d, contact := &t.delivery, &t.site.Contact
	for ; ; d.try++ {
		waited := contact.silent()
		if waited && t.byCaller {
			return Answer{}, false
		}
		if waited && !contact.await(t.site.life) {
			return d.asUnconfirmed(d.unsent()), true
		}
		left := (d.try > 0 || waited) && abandoned(t.carried, waited)
		switch {
		case d.unanswered > 0 && (left || d.unanswered >= MaxUnconfirmed): // ask for the outcome of those tries
			image, _, err := t.site.ReadPatiently(t.ctx, t.hint)
			return d.outcomeIn(image, err), true
		case left:
			return d.unsent(), true
		}
		d.id = OpID(d.operation, d.try)
		began := time.Now()
		sent := t.sendTry(schema.Op{Slot: d.slot, Rule: d.rule, ID: d.id, Required: d.required})
		took := time.Since(began)
		if sent.Err == nil {
			contact.NoteAnswer()
		} else {
			t.noteFailure(sent, took)
		}
		a, then := d.bookTry(sent, took)
		tripped := then.silent && t.lane.Trip(sent.Err)
		switch {
		case then.over:
			return a, true
		case tripped:
			continue
		case then.silent || d.try+1 >= MaxTries || outOfTime(t.carried): // after Close nothing probes the bucket, and nothing is kept
			return d.asUnconfirmed(a), true
		case !Backoff.Pause(t.ctx, d.try): // only a caller's context ends
			d.try++
			return Answer{}, false
		}
	}
}

// sendTry sends one try of the write. If the role refuses its part about money or its notes, it sends the write
// again without them, and later writes leave them out.
func (t *turn) sendTry(o schema.Op) Answer {
	t.tried = true
	if t.delivery.creates {
		t.write.Create.OpID = o.ID
		a := t.owner.Store.Create(t.ctx, t.write.Create, t.hint, o.Slot)
		if a.Err != nil && t.write.Money != nil && dropMoney(a, &t.move) {
			a = t.owner.Store.Create(t.ctx, t.write.Create, t.hint, o.Slot)
			t.owner.Models.learnRefusal(a)
		}
		return a
	}
	a := t.owner.Store.Update(t.ctx, t.site.Key(), t.write.Statement(o), t.hint, o.Slot)
	if a.Err != nil && t.write.Money != nil && dropMoney(a, &t.move) {
		a = t.owner.Store.Update(t.ctx, t.site.Key(), t.write.Statement(o), t.hint, o.Slot)
		t.owner.Models.learnRefusal(a)
	}
	if a.Err != nil && ddb.DeniesAccess(a.Err) && t.write.DropNotes() { // a role of before notes
		t.lane.extra.loadOrMake().muteNotes(float64(t.owner.NowMS()))
		a = t.owner.Store.Update(t.ctx, t.site.Key(), t.write.Statement(o), t.hint, o.Slot)
	}
	return a
}

// noteFailure records in the contact that the bucket answered, if the failed try got an answer. A throttled try
// starts or lengthens the pacing of the lane.
func (t *turn) noteFailure(sent Answer, took time.Duration) {
	if !silent(sent.Err) && hasAnswer(sent.Err) {
		t.site.Contact.NoteAnswer()
	}
	if sent.Verdict == ddb.Throttled {
		t.noteThrottling(false, took, sent.Err)
	}
}

// failOps ends ops with err after a failed read of their bucket or configuration; a silent bucket then trips
// the lane. A throttled read paces the lane and puts the ops off. If the caller's context ended, the ops
// continue without the caller.
func (t *turn) failOps(ops []*Op, err error) {
	switch {
	case t.byCaller && t.ctx.Err() != nil:
		t.again, t.leaves = append(t.again, ops...), true
	case isThrottling(err):
		t.noteThrottling(true, 0, err)
		t.putOff(ops, err, time.Now(), t.owner.Patience)
	default:
		t.endOps(ops, Result{Err: err})
		if silent(err) {
			t.trips = err
		}
	}
}

// noteThrottling starts or lengthens the pacing of the lane, because a read, or a write that took trip, was
// throttled with the error cause. It lists the lane as paced, and reports the start of the pacing to the trace.
func (t *turn) noteThrottling(read bool, trip time.Duration, cause error) {
	p, started := t.lane.extra.loadOrMake().throttle(t.site.Bucket, t.site.passed, read, trip, cause)
	t.owner.listPaced(p, started)
}

// abandoned reports whether no caller waits for any of ops. They are takes whose callers have left or, if
// silent is set because the bucket was silent meanwhile, ops whose callers have been answered.
func abandoned(ops []*Op, silent bool) bool {
	for _, o := range ops {
		if !o.isAbandonedTake() && !(silent && o.state.Load() == opPending) {
			return false
		}
	}
	return true
}

// outOfTime reports whether every op has used up its time for the store. Takes without a caller have no time
// left, and ops without an end always have some.
func outOfTime(ops []*Op) bool {
	now := time.Now()
	for _, o := range ops {
		if !o.isAbandonedTake() && (o.Until.IsZero() || now.Before(o.Until)) {
			return false
		}
	}
	return true
}
