package lane

import (
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// turn is one batch of a lane: its ops, a copy of the knowledge that decides them, the decision, and the
// write in flight. Lane.begin fills it, prepare decides it, deliver sends its write, and Lane.bookAnswer writes
// the outcome back. It belongs to the goroutine that runs the lane. Between two tries it can move to
// another one, as a whole: a copy would send a give-back twice.
type turn struct {
	owner  *Registry
	lane   *Lane
	memory *Memory
	site   site
	// extra are the lane's extra parts as of begin.
	extra *extra
	// caller is the context of the caller on whose goroutine the lane runs; nil on a goroutine of its
	// own. ctx is the context of the requests.
	caller, ctx context.Context
	// inFlight are the slots of the process's open calls, without those that the adjusts end; nil without slots.
	inFlight *plan.InFlight
	decision
	flight
}

// prepare reads missing facts, and decides the turn. It returns false if there is nothing to write.
func (t *turn) prepare() bool {
	t.now = t.owner.NowMS()
	stale := int64(0)
	if t.extra != nil {
		stale = t.extra.line.staleFor(t.takes, t.known.image, t.now)
	}
	t.looked = t.known.shared != 0 && len(t.takes) > 0 &&
		t.known.isWary(t.takes, stale, t.now) // a bucket that other processes use is read before a write of takes
	var lost, untried bool // give-backs of other buckets than the image's
	if len(t.adjusts) > 0 && t.known.known {
		lost, untried = t.findUnplaced(t.known.image)
	}
	if t.looked || untried || !t.known.known && t.charges() {
		if err := t.look(); err != nil {
			t.fail(t.ops(), err)
			return false
		}
		lost = true
	}
	if len(t.adjusts) > 0 {
		if lost || !t.known.known {
			t.dropLostRefunds()
		}
		if len(t.adjusts)+len(t.takes) == 0 {
			return false
		}
		if len(t.adjusts) > 1 {
			t.limitAdjusts()
		}
		if !t.charges() {
			return t.planGiveBack(t.owner.SureMS)
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
	t.choose()
	if len(t.left) > 0 {
		return t.denyLeft()
	}
	return len(t.carried) > 0
}

// look reads the bucket for the lane.
func (t *turn) look() error {
	image, asked, err := t.site.Read(t.ctx, t.known.hint())
	if err != nil {
		return err
	}
	var foreign bool
	if t.known, foreign = t.memory.learnRead(image, asked); foreign {
		t.site.NoticeForeign()
	}
	t.now = t.owner.NowMS()
	return nil
}

// failView ends ops for which the configuration in force cannot be found or used. Adjusts need it only
// if it could not be read.
func (t *turn) failView(err error) {
	if ofConfiguration(err) && len(t.takes) > 0 {
		t.end(t.takes, Result{Err: err})
		t.again = append(t.again, t.adjusts...)
		return
	}
	t.fail(t.ops(), err)
}

// denyLeft denies takes that do not fit a recent image. If the image is not recent, it reads the bucket
// once and leaves them for the next turn. It returns true if a write brings a newer configuration with
// the denial.
func (t *turn) denyLeft() bool {
	ops := make([]*Op, len(t.left))
	for i := range t.left {
		ops[i] = t.left[i].op
	}
	v := t.view
	if !t.known.fresh(v.Now) && slices.ContainsFunc(ops, func(o *Op) bool { return !o.bucketRead }) {
		if err := t.look(); err != nil {
			t.fail(ops, err)
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
		return true
	}
	t.deny(v, t.left, false)
	return false
}
