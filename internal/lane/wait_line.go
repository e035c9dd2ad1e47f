package lane

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A bucket's waiters stand in line, first come first served. Of the waiters that need a scarce limit,
// the first are the heads. They alone ask the store, at the exact time of the last answer, and later
// callers of the process leave them their amounts.

// Waiter is a call of Wait in a bucket's line, whose lock guards it. It stands in one line at a time.
type Waiter struct {
	// Rank is its seniority among the waiters of the process: a lower rank goes first.
	// It never changes.
	Rank uint64
	// batch means that it is a batch call, and stands in the line of those. It never changes.
	batch   bool
	amounts []plan.Signed
	// scarce are the limits that denied it last, under cfg.
	scarce []string
	cfg    *plan.Config
	// head means that no waiter before it needs the same scarce limit, and that its amounts fit the
	// full bucket next to those of the waiters before it.
	head bool
	// counted means that the sums of the waiters behind the heads include its amounts.
	counted bool
	// called means that it fits next to the waiters before it, so that it may try once.
	called bool
	// served means that a write with its amounts has landed.
	served bool
	// came is the instant of its arrival in Unix ms, with fractions, and try its next try.
	came float64
	try  plan.Try
	// note is the note that it must leave in the item; nil without one.
	note *leaving
	// Wake receives a value when the waiter must check its turn again. It holds at most one.
	Wake chan struct{}
	// dispute is the fingerprint of other callers' limits under which the waiter has already tried.
	dispute []byte
}

// NewWaiter makes a waiter with a given rank that came at an instant. It stands in no line yet; batch means
// that it is a batch call.
func NewWaiter(rank uint64, came time.Time, batch bool) *Waiter {
	return &Waiter{Rank: rank, batch: batch, came: milliseconds(came), Wake: make(chan struct{}, 1)}
}

// wakeUp sends to w.Wake, unless a value is waiting there.
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

// fitsBeside reports whether the full bucket holds the waiter's amounts in addition to those left to others
// and, for a batch call, the reserve. Limits that the others do not take, and limits in shadow, do not count.
func (w *Waiter) fitsBeside(left plan.Rows) bool {
	for _, a := range w.cfg.Enforced(w.amounts) {
		i := w.cfg.Index(a.Name)
		others := left.Of(a.Name).Take
		if i < 0 || others == 0 {
			continue
		}
		if l := &w.cfg.Limits[i]; w.batch {
			others += l.Rate.ReserveOf(l.Reserve)
		}
		if a.Amount > w.cfg.Limits[i].Rate.Burst-others {
			return false
		}
	}
	return true
}

// Line holds the waiters of a bucket, in order of rank. Of the waiters that need a scarce limit, the
// first are heads. They alone ask the store, and every take of a higher rank leaves them their amounts.
// A served waiter stays until it quits, and is ignored.
//
// A Line is safe for concurrent use. No other lock is taken under its own, and a write takes it only
// while a waiter stands in line, or if an image has a note. The zero value is ready.
//
// A bucket has a line of interactive waiters and one of batch waiters, which leave to the first line all that its
// waiters need.
type Line struct {
	mu sync.Mutex
	// first is the line of interactive waiters, if this one is of batch waiters; else nil. It never changes.
	first *Line
	// waited means that a waiter stands in line. mu is held while it is set.
	waited atomic.Bool
	// waiters are in order of rank.
	waiters []*Waiter
	// contest is the competition with the waiters of other processes. It outlasts the waiters.
	contest plan.Contest
	// behind sums the amounts of the waiters that are no heads.
	behind []plan.Signed
	// follows means that the first of them fits the full bucket next to the heads.
	follows bool
	// places are those of denied callers of Acquire, in order of rank.
	places []*place
}

// Waited reports whether a waiter stands in line, also one that is served and has not quit yet.
func (l *Line) Waited() bool { return l.waited.Load() }

// Join puts a waiter into the line, behind the waiters of a lower rank, and clears its amounts and states of
// another line. It becomes a head at its first denial at the earliest. The first waiter gives the line an id
// for the contest.
func (l *Line) Join(w *Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.amounts, w.scarce, w.head, w.called, w.served = nil, nil, false, false, false
	position := slices.IndexFunc(l.waiters, func(o *Waiter) bool { return o.Rank > w.Rank })
	if position < 0 {
		position = len(l.waiters)
	}
	l.waiters = slices.Insert(l.waiters, position, w)
	if l.contest.Lane == 0 {
		l.contest.Lane = rand.Uint32()
	}
	l.waited.Store(true)
}

// RecordDenial stores the amounts of a waiter in line, its configuration, and the limits that denied it this
// time, and unmarks it as served. It then finds the heads of the line again, and wakes the new ones but w.
func (l *Line) RecordDenial(w *Waiter, amounts []plan.Signed, scarce []string, cfg *plan.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countBehind(w, false)
	w.amounts, w.scarce, w.cfg, w.served = amounts, scarce, cfg, false
	l.findHeads(w)
}

// Quit takes a waiter out of the line, finds the heads again and wakes the new ones. The last waiter's end
// removes all places.
func (l *Line) Quit(w *Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countBehind(w, false)
	l.waiters = slices.DeleteFunc(l.waiters, func(o *Waiter) bool { return o == w })
	l.waited.Store(len(l.waiters) > 0)
	if len(l.waiters) == 0 {
		l.places = nil
	}
	l.findHeads(nil)
}

// Reconfigure gives a waiter the configuration in force, nil without limits. It returns true if that
// differs from the one before. It then wakes the other heads of the line, because the change may
// concern them too.
func (l *Line) Reconfigure(w *Waiter, cfg *plan.Config) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.cfg == nil && cfg == nil || w.cfg != nil && cfg != nil && string(w.cfg.Fingerprint) == string(cfg.Fingerprint) {
		return false
	}
	w.cfg = cfg
	l.findHeads(nil)
	for _, o := range l.waiters {
		if o != w && o.head {
			o.wakeUp()
		}
	}
	return true
}

// markServed marks a waiter in line as served by a landed write, so that its amounts no longer count. It then finds
// and wakes new heads. It ignores a waiter that went on, and may stand in another line.
func (l *Line) markServed(w *Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.waiters, w) {
		return
	}
	w.served = true
	l.findHeads(nil)
}

// findHeads finds the heads of the line, and wakes the new ones except looks, which checks its turn next on its
// own. If looks were woken, it would try at once in a lane without an image. mu must be held.
func (l *Line) findHeads(looks *Waiter) {
	var scarce []string
	var left plan.Rows
	first := true // of the waiters behind the heads
	for _, w := range l.waiters {
		if w.served { // about to leave
			l.countBehind(w, false)
			continue
		}
		wasHead := w.head
		if w.head = !w.needs(scarce) && w.fitsBeside(left); w.head && !wasHead && w != looks {
			w.wakeUp()
		}
		if l.countBehind(w, !w.head); w.head {
			left.Take(w.amounts)
		} else if first {
			first, l.follows = false, w.fitsBeside(left)
		}
		for _, name := range w.scarce {
			if !slices.Contains(scarce, name) {
				scarce = append(scarce, name)
			}
		}
	}
}

// countBehind adds the amounts of a waiter to the sums of the waiters behind the heads if behind is set, else
// takes them off. mu must be held.
func (l *Line) countBehind(w *Waiter, behind bool) {
	if w.counted == behind {
		return
	}
	w.counted = behind
	if behind {
		l.behind = plan.Plus(l.behind, w.amounts)
	} else {
		l.behind = plan.Plus(l.behind, plan.Negated(w.amounts))
	}
}

// WakeHeads wakes the heads, because they may have to wait less now.
func (l *Line) WakeHeads() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiters {
		if w.head {
			w.wakeUp()
		}
	}
}

// MayTry reports whether a waiter is a head of the line, and whether it was called to try once. It resets
// called.
func (l *Line) MayTry(w *Waiter) (head, called bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	called, w.called = w.called, false
	return w.head, called
}

// callAlong wakes the waiters behind w, for one try each, if they fit a view's bucket next to w and each other. One
// write can then carry them all. It stops at the first that does not fit or that the contest holds back, because nobody
// overtakes it. It calls nobody before w: two waiters would call each other without end.
func (l *Line) callAlong(w *Waiter, v plan.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sums plan.Rows
	now, places, batch := float64(v.Now), l.places, l.first != nil
	for _, o := range l.waiters {
		if o.served {
			continue
		}
		sums, places = takePlaces(sums, v, places, o.Rank)
		if sums = v.Rows(sums, o.amounts); !sums.Fit(o.amounts, nil, batch) {
			if o == w {
				continue
			}
			return // nobody overtakes it
		}
		sums.Take(o.amounts)
		if o.head || o.Rank <= w.Rank {
			continue
		}
		if !l.contest.MayRide(o.came, sums.LeavePlenty(o.amounts, batch), v.Image.Notes.NoteFor(batch), now) {
			return
		}
		o.called = true
		o.wakeUp()
	}
}

// LastRank is the rank of callers that do not wait: every waiter goes before them.
const LastRank = math.MaxUint64

// head is a waiter at the head of a line, with its amounts.
type head struct {
	waiter  *Waiter
	rank    uint64
	amounts []plan.Signed
}

// claims are the amounts that the waiters of a line need, at one instant.
type claims struct {
	heads []head
	// behind sums the amounts of the other waiters. follows means that the first of them fits the full
	// bucket next to the heads.
	behind  []plan.Signed
	follows bool
	// places are those of denied callers of Acquire.
	places []placeClaim
	// contest is the competition with other lanes.
	contest plan.Contest
	// batches are the claims of the batch waiters; nil without one. waits means that a waiter of either class stands in
	// line.
	batches *claims
	waits   bool
}

// claims returns the amounts of the line's waiters: those of the heads in order, and the sums behind them. It is
// empty for a nil line.
func (l *Line) claims() claims {
	if l == nil {
		return claims{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := claims{behind: l.behind, follows: l.follows, places: l.placeClaims(), contest: l.contest} // a sum is never changed
	for _, w := range l.waiters {
		if w.head && !w.served {
			c.heads, c.waits = append(c.heads, head{w, w.Rank, w.amounts}), true
		}
	}
	return c
}

// LeftTo returns the amounts that a take must leave to this line's waiters with a lower rank and to another
// process's reservation; nil for none. r is the state of the bucket.
func (l *Line) LeftTo(rank uint64, r plan.Reading) plan.Promises {
	c := l.claims()
	return c.leftTo(rank, nil, r, nil)
}

// ofClass returns the claims of a class of waiters: c itself for interactive ones, and empty claims if no batch
// waiter stands in line.
func (c *claims) ofClass(batch bool) *claims {
	switch {
	case !batch:
		return c
	case c.batches == nil:
		return &claims{}
	}
	return c.batches
}

// leaves reports whether a take must leave anything to waiters, or to a reservation of another process, by r,
// the state of the bucket. A batch call counts the waiters of both classes.
func (c *claims) leaves(r plan.Reading) bool {
	if r.Batch {
		if own := c.ofClass(true); len(own.heads) > 0 || r.IsReserved(own.contest.Lane) {
			return true
		}
		r.Batch = false
	}
	return len(c.heads) > 0 || r.IsReserved(c.contest.Lane)
}

// leftTo returns the amounts that a take must leave to waiters of a lower rank, or before the place p, and to
// another process's reservation. Waiters whose takes the write carries are left out. A batch call leaves them
// to all interactive waiters, too; r is the bucket's state.
func (c *claims) leftTo(rank uint64, carried []*Waiter, r plan.Reading, p *placeClaim) plan.Promises {
	var f plan.Forecast
	if own := c; r.Batch {
		r.Batch = false
		c.promise(&f, LastRank, carried, r, nil)
		r.Batch, own = true, c.ofClass(true)
		own.promise(&f, rank, carried, r, p)
	} else {
		own.promise(&f, rank, carried, r, p)
	}
	return f.Limits
}

// promise adds to f the amounts that a take of a class must leave to waiters of that class with a lower rank. A
// waiter leaves them to the heads, another caller to all waiters, and one with a place to the waiters before
// that place. If the first waiter behind the heads cannot use its amounts before the heads are served, nothing
// is left to those behind.
func (c *claims) promise(f *plan.Forecast, rank uint64, carried []*Waiter, r plan.Reading, p *placeClaim) {
	f.PromiseReserved(r, c.contest.Lane)
	behind := c.behind
	if p != nil {
		rank, behind = p.rank, p.before
	}
	for _, h := range c.heads {
		if h.rank < rank && !slices.Contains(carried, h.waiter) {
			f.Serve(r, h.amounts)
		}
	}
	switch {
	case p != nil:
		f.PromiseBehind(r, behind, true)
	case rank == LastRank:
		f.PromiseBehind(r, c.without(behind, carried, r.Batch), c.follows)
		for _, o := range c.places {
			f.PromiseBehind(r, o.amounts, true)
		}
	default:
		for _, o := range c.places {
			if o.rank < rank && !o.isKeptOver(r.Now) {
				f.Serve(r, o.amounts)
			}
		}
	}
}

// without returns behind, less the amounts of waiters that a write carries. behind sums the amounts of the waiters of a
// class behind the heads; batch is their class.
func (c *claims) without(behind []plan.Signed, carried []*Waiter, batch bool) []plan.Signed {
	if len(behind) == 0 {
		return nil
	}
	for _, w := range carried {
		if w.batch == batch && !slices.ContainsFunc(c.heads, func(h head) bool { return h.waiter == w }) {
			behind = plan.Plus(behind, plan.Negated(w.amounts))
		}
	}
	return behind
}

// disputed reports whether the bucket again has limits of other callers under which the waiter has already
// tried. Callers that disagree about limits claim the bucket in turn. It stores the image's fingerprint in the
// waiter, and is false the first time. image is nil for an unknown bucket, which is never disputed.
func (l *Line) disputed(w *Waiter, image *schema.Image) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if image == nil || w.cfg == nil || w.cfg.Wrote(image) {
		return false
	}
	again := bytes.Equal(w.dispute, image.Fingerprint)
	w.dispute = image.Fingerprint
	return again
}

// due returns the wait in ms until a waiter's amounts fit after those of the waiters before it. It is 0 if they never
// fit. A head waits only for other heads. known is false if image is nil or of another configuration than the
// waiter's. It computes the wait at the instant of the try's decision: sure has surely passed at now.
func (l *Line) due(w *Waiter, image *schema.Image, sure, now int64) (wait int64, known bool) {
	ahead := l.first.claims()
	l.mu.Lock()
	defer l.mu.Unlock()
	if image == nil || w.cfg == nil || !w.cfg.Wrote(image) {
		return 0, false
	}
	interactive := plan.Reading{Image: image, Config: w.cfg, Now: plan.Unopened(image, w.cfg, sure, now)}
	f, r := l.forecast(&ahead, interactive)
	for _, o := range l.waiters {
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
	if len(l.places) > 0 {
		f, _ = l.forecast(&ahead, interactive)
		wait = l.dueBehindPlaces(w, f, r, wait)
	}
	return wait, true
}

// forecast returns an empty forecast. For a line of batch waiters it has the promises to all interactive waiters, whose
// claims are ahead. own is the reading as the line's waiters see it.
func (l *Line) forecast(ahead *claims, r plan.Reading) (f plan.Forecast, own plan.Reading) {
	if l.first != nil {
		ahead.promise(&f, LastRank, nil, r, nil)
		r.Batch = true
	}
	return f, r
}
