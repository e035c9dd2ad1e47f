package lane

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// A bucket's waiters stand in line, first come first served. The first of those
// who need a scarce limit are at the head: they alone ask the store, at the
// exact time the last answer gives, and what they need is left to them by
// everyone else in the process who came later.

// Waiter is a call of Wait that stands in a bucket's line. The mutex of that lane guards
// it.
type Waiter struct {
	// Rank is its seniority among the waiters of the process: a lower rank goes first.
	// It never changes.
	Rank    uint64
	amounts []plan.Signed
	// scarce are the limits that denied it last, under cfg.
	scarce []string
	cfg    *plan.Config
	// head means that nobody before it waits for a limit that it needs, and that its
	// amounts fit the full bucket beside what is left to the waiters before it.
	head bool
	// called means that it fits beside the waiters before it, so that it may try once.
	called bool
	// served means that a write which carried it has landed.
	served bool
	// Patience is how long its caller waits altogether, 0 without end.
	Patience time.Duration
	// Wake receives a value when the waiter has to look again. It holds at most one.
	Wake chan struct{}
	// dispute is the fingerprint of other callers' limits under which it has already
	// tried.
	dispute []byte
}

// NewWaiter makes a waiter that ranks behind all waiters made so far.
func (s *Registry) NewWaiter() *Waiter { return NewWaiter(s.ranks.Add(1)) }

// NewWaiter makes a waiter with a given rank.
func NewWaiter(rank uint64) *Waiter { return &Waiter{Rank: rank, Wake: make(chan struct{}, 1)} }

func (w *Waiter) wakeUp() {
	select {
	case w.Wake <- struct{}{}:
	default:
	}
}

// needs reports whether the waiter takes any of the limits.
func (w *Waiter) needs(names []string) bool {
	for _, a := range w.amounts {
		if slices.Contains(names, a.Name) {
			return true
		}
	}
	return false
}

// fitsBeside reports whether the bucket, when full, holds what the waiter needs
// beside what is left to others.
func (w *Waiter) fitsBeside(left plan.Sums) bool {
	for _, a := range w.amounts {
		i := w.cfg.Index(a.Name)
		if others := left.Of(a.Name).Take; i >= 0 && others > 0 && a.Amount > w.cfg.Limits[i].Rate.Burst-others {
			return false
		}
	}
	return true
}

// Behind is how far behind the exact time the lane's next try is.
func (l *Lane) Behind() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.spread.Behind(rand.Float64())) * time.Microsecond
}

// Lost notes that a try of a waiter's came, and that others were first.
func (l *Lane) Lost(w *Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spread = l.spread.Lost(w.Patience.Microseconds())
}

// Join puts a waiter into the line, behind those of a lower rank.
func (l *Lane) Join(w *Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.amounts, w.scarce, w.head, w.called, w.served = nil, nil, false, false, false
	position := slices.IndexFunc(l.line, func(o *Waiter) bool { return o.Rank > w.Rank })
	if position < 0 {
		position = len(l.line)
	}
	l.line = slices.Insert(l.line, position, w)
	l.waited.Store(true)
}

// Lacks notes what a waiter in line needs, and which limits denied it this time.
func (l *Lane) Lacks(w *Waiter, amounts []plan.Signed, scarce []string, cfg *plan.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.amounts, w.scarce, w.cfg, w.served = amounts, scarce, cfg, false
	l.findHeads()
}

// Quit takes a waiter out of the line.
func (l *Lane) Quit(w *Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = slices.DeleteFunc(l.line, func(o *Waiter) bool { return o == w })
	l.waited.Store(len(l.line) > 0)
	l.findHeads()
}

// Reconfigure puts a waiter under the configuration in force; nil if there is none. It
// returns true if that differs from the one before. It then wakes the other heads of the
// line, because the change may concern them too.
func (l *Lane) Reconfigure(w *Waiter, cfg *plan.Config) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.cfg == nil && cfg == nil || w.cfg != nil && cfg != nil && string(w.cfg.Fingerprint) == string(cfg.Fingerprint) {
		return false
	}
	w.cfg = cfg
	l.findHeads()
	for _, o := range l.line {
		if o != w && o.head {
			o.wakeUp()
		}
	}
	return true
}

// findHeads decides which waiters are heads of the line, and wakes those that have
// become one.
func (l *Lane) findHeads() {
	var scarce []string
	var left plan.Sums
	for _, w := range l.line {
		if w.served { // about to leave
			continue
		}
		wasHead := w.head
		if w.head = !w.needs(scarce) && w.fitsBeside(left); w.head && !wasHead {
			w.wakeUp()
		}
		if w.head {
			ask := Op{take: true, Amounts: w.amounts}
			ask.addTo(&left)
		}
		for _, name := range w.scarce {
			if !slices.Contains(scarce, name) {
				scarce = append(scarce, name)
			}
		}
	}
}

// wakeHeads wakes the heads of the line, because they may have to wait less now. l.mu
// must be held.
func (l *Lane) wakeHeads() {
	for _, w := range l.line {
		if w.head {
			w.wakeUp()
		}
	}
}

// MayTry reports whether a waiter is a head of the line, and whether it was called. It
// resets called.
func (l *Lane) MayTry(w *Waiter) (head, called bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	called, w.called = w.called, false
	return w.head, called
}

// CallAlong calls the waiters behind w that fit the last image beside w and each other,
// so that one write carries them all.
func (l *Lane) CallAlong(w *Waiter, cfg *plan.Config) {
	now := l.owner.NowMS()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sight.current(cfg) || len(l.line) < 2 {
		return
	}
	v := plan.NewView(l.sight.image, cfg, plan.Current, now)
	var s plan.Sums
	for _, o := range l.line {
		if o.served {
			continue
		}
		ask := Op{take: true, Amounts: o.amounts}
		if !v.Fits(ask.Amounts, s, nil) {
			if o == w {
				continue
			}
			return // nobody overtakes it
		}
		ask.addTo(&s)
		if o != w && !o.head {
			o.called = true
			o.wakeUp()
		}
	}
}

// LastRank is the rank of callers who do not wait: every waiter goes before them.
const LastRank = math.MaxUint64

// head is a waiter at the head of a line, and what it needs.
type head struct {
	waiter  *Waiter
	rank    uint64
	amounts []plan.Signed
}

// heads are the waiters at the head of the line, in order.
func (l *Lane) heads() []head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.atHead()
}

// atHead is heads; l.mu must be held.
func (l *Lane) atHead() []head {
	var heads []head
	for _, w := range l.line {
		if w.head && !w.served {
			heads = append(heads, head{w, w.Rank, w.amounts})
		}
	}
	return heads
}

// LeftTo is what a take of a rank must leave to the heads of the line that rank before
// it. r says what the bucket holds.
func (l *Lane) LeftTo(rank uint64, r plan.Reading) plan.Promises {
	return promised(l.heads(), rank, nil, r)
}

// promised is what a take must leave to the heads that rank before its caller, without
// those that the same write carries. r says what the bucket holds.
func promised(heads []head, rank uint64, carried []*Op, r plan.Reading) plan.Promises {
	var f plan.Forecast
	for _, h := range heads {
		if h.rank < rank && !slices.ContainsFunc(carried, func(o *Op) bool { return o.Waiter == h.waiter }) {
			f.Serve(r, h.amounts)
		}
	}
	return f.Limits
}

// Disputed reports whether the bucket is again under limits of other callers that the
// waiter has already tried under. Callers who disagree about the limits claim the bucket
// in turn, and each claim wakes the others. It is false the first time, because the
// limits may really have changed.
func (l *Lane) Disputed(w *Waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sight.known || l.sight.image == nil || w.cfg == nil || w.cfg.Wrote(l.sight.image) {
		return false
	}
	again := bytes.Equal(w.dispute, l.sight.image.Fingerprint)
	w.dispute = l.sight.image.Fingerprint
	return again
}

// Due is how long a waiter has to wait, in ms, until its amounts fit after the waiters
// before it have been served. A head waits only for other heads. known is false if the
// last image is too old to say, or was written under another configuration.
func (l *Lane) Due(w *Waiter, now int64) (wait int64, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sight.current(w.cfg) || !l.sight.fresh(now) {
		return 0, false
	}
	r := plan.Reading{Image: l.sight.image, Config: w.cfg, Now: now}
	var f plan.Forecast
	for _, o := range l.line {
		if o == w {
			break
		}
		if !o.served && (o.head || !w.head) {
			f.Serve(r, o.amounts)
		}
	}
	wait, ok := f.Wait(r, w.amounts)
	if !ok {
		return 0, true // it never fits: a try says so
	}
	return wait, true
}
