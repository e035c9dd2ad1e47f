package lane

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// maxOwingBuckets bounds for how many buckets a process keeps what they are owed.
const maxOwingBuckets = 10_000

// owing is what one bucket is owed: charges for what the policy admitted, and give-backs
// that could not be written. It may outlive the bucket's lane.
type owing struct {
	lane bucketKey

	mu sync.Mutex
	// charge collects what is to be charged. A charge that has been sent is another one.
	charge *backlog.Charge
	cfg    *plan.Config // the last known: what the bucket is made with if it is gone
	// backs are to be given back, each by a write of its own.
	backs []owedBack
	// incarnation is that of the bucket that is owed; nil if it is not known.
	incarnation []byte
	// carried means that a lane is writing a part of it. Nothing is tried again before
	// retry.
	carried bool
	retry   time.Time
}

// owedBack is a give-back to one incarnation of a bucket.
type owedBack struct {
	amounts     []plan.Signed
	incarnation []byte
}

// pending reports whether something is owed that is not being written.
func (w *owing) pending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready() && (len(w.backs) > 0 || !w.charge.Empty())
}

// ready reports whether something may be written now. w.mu must be held.
func (w *owing) ready() bool { return !w.carried && !time.Now().Before(w.retry) }

// empty reports whether nothing is owed any more.
func (w *owing) empty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.carried && len(w.backs) == 0 && w.charge.Empty()
}

// due is what is to be charged at now.
func (w *owing) due(now int64) []plan.Signed {
	w.mu.Lock()
	defer w.mu.Unlock()
	var sum []plan.Signed
	for _, due := range w.charge.Due(now) {
		sum = plan.Plus(sum, []plan.Signed{{Name: due.Name, Amount: due.Count}})
	}
	return sum
}

// add adds amounts to what is owed. It returns the charge that carries them; nil if that
// would be more than a bucket can be charged.
func (w *owing) add(amounts []plan.Signed, cfg *plan.Config, incarnation []byte, now int64) *backlog.Charge {
	w.mu.Lock()
	defer w.mu.Unlock()
	if incarnation != nil {
		w.incarnation = incarnation
	}
	w.cfg = cfg
	for _, a := range amounts {
		if a.Amount > w.charge.Room(a.Name) {
			return nil
		}
	}
	for _, a := range amounts {
		w.charge.Add(a.Name, cfg.RateOf(a.Name), a.Amount, now)
	}
	return w.charge
}

// addRefund adds a give-back to what is owed.
func (w *owing) addRefund(amounts []plan.Signed, incarnation []byte, cfg *plan.Config) {
	if len(amounts) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cfg == nil {
		w.cfg = cfg
	}
	if n := len(w.backs) - 1; n >= 0 && string(w.backs[n].incarnation) == string(incarnation) {
		if sum := plan.Plus(w.backs[n].amounts, amounts); plan.Carriable(sum) {
			w.backs[n].amounts = sum
			return
		}
	}
	w.backs = append(w.backs, owedBack{amounts, incarnation})
}

// takeOver collects again what a charge carried that was surely not written.
func (w *owing) takeOver(c *backlog.Charge, now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.MoveTo(w.charge, now)
}

// next makes the op that writes the next part of what is owed: first the charges, then
// each give-back alone; nil if there is nothing to write.
func (w *owing) next(s *Registry) *Op {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.ready():
		return nil
	case w.charge.Send():
		c := w.charge
		w.charge, w.carried = backlog.NewCharge(), true
		o := NewAdjust(context.Background(), nil, nil, w.cfg)
		o.charge, o.solo, o.owedTo = c, true, w.incarnation
		o.onOutcome = func(r Result) { s.bookCharge(w, c, o, r) }
		return o
	case len(w.backs) > 0:
		b := w.backs[0]
		w.backs, w.carried = slices.Delete(w.backs, 0, 1), true
		o := NewAdjust(context.Background(), plan.Negated(b.amounts), b.incarnation, w.cfg)
		o.solo = true
		o.onOutcome = func(r Result) { s.bookRefund(w, b, o.cfg, r) }
		return o
	}
	return nil
}

// signedRefunds converts the refunds of a charge.
func signedRefunds(list []backlog.Refund) []plan.Signed {
	var out []plan.Signed
	for _, r := range list {
		out = plan.Plus(out, []plan.Signed{{Name: r.Name, Amount: r.Amount}})
	}
	return out
}

// bookCharge books the outcome of a charge that was owed.
func (s *Registry) bookCharge(w *owing, c *backlog.Charge, o *Op, r Result) {
	switch {
	case r.bucketGone:
		s.noteDropped(w.lane, o.owed(), "the bucket is gone")
		c.Dropped()
	case r.Err == nil:
		if dropped := o.owedOf(r.Dropped); len(dropped) > 0 {
			s.noteDropped(w.lane, dropped, "its limits are gone")
		}
		incarnation := r.Image.Of()
		w.addRefund(signedRefunds(c.Landed(incarnation, r.Dropped)), incarnation, o.cfg)
	case r.Unconfirmed:
		s.tally.doubt(o.owed())
		c.Unanswered()
	default:
		w.takeOver(c, s.NowMS())
	}
	s.finishPart(w, r)
}

// noteDropped counts and logs amounts that will never be charged.
func (s *Registry) noteDropped(key bucketKey, amounts []plan.Signed, why string) {
	s.tally.drop(amounts)
	s.Log.Warn("dynalimit: what was admitted while a bucket did not answer is not charged: "+why,
		slog.String("entity", key.entity), slog.String("resource", key.resource), slog.Any("tokens", plan.Tokens(amounts)))
}

// bookRefund books the outcome of a give-back that was owed. If it may have been
// written, it is not written again.
func (s *Registry) bookRefund(w *owing, b owedBack, cfg *plan.Config, r Result) {
	if r.Err != nil && !r.Unconfirmed {
		w.addRefund(b.amounts, b.incarnation, cfg)
	} else if r.Unconfirmed {
		s.tally.doubt(b.amounts)
	}
	s.finishPart(w, r)
}

// finishPart ends the writing of a part of what is owed. If it could not be written, it
// waits for flushDelay, so that the lane's own takes go first.
func (s *Registry) finishPart(w *owing, r Result) {
	w.mu.Lock()
	w.carried = false
	if r.Err != nil && !r.Unconfirmed {
		w.retry = time.Now().Add(flushDelay)
	}
	w.mu.Unlock()
	s.owed.forget(w)
}
