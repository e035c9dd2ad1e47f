package lane

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The waiters of a line compete with those of other processes. Package plan has the rules; the line adds the
// chance, and keeps the contest.

// milliseconds returns an instant in Unix ms, with fractions.
func milliseconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1000 }

// instant is the inverse of milliseconds.
func instant(ms float64) time.Time { return time.UnixMicro(int64(math.Ceil(ms * 1000))) }

// headOf returns a waiter as the head of the line, by an image under its configuration; exact is the instant at
// which its amounts are there. l.mu must be held.
func (l *Line) headOf(w *Waiter, image *schema.Image, exact, now float64, calls plan.Calls) plan.Head {
	line := l.behind
	for _, o := range l.waiters {
		if o.head && !o.served {
			line = plan.Plus(line, o.amounts)
		}
	}
	return plan.HeadOf(plan.Reading{Image: image, Config: w.cfg, Now: int64(now), Batch: w.batch}, l.contest.Lane, w.came, exact, w.amounts, line, calls)
}

// isContended reports whether waiters of other processes compete for the bucket at now.
func (l *Line) isContended(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.contest.IsContended(milliseconds(now))
}

// next returns the instants of the try and the next look of a head with amounts that are there at exact; looked is
// that of the last look. All are in Unix ms. ok is false if no other process competes or has a reservation, and
// the head waits for no slot.
func (l *Line) next(w *Waiter, image *schema.Image, calls plan.Calls, exact, looked, now float64) (try, look float64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if image == nil || w.cfg == nil || !w.cfg.Wrote(image) {
		return 0, 0, false
	}
	h, seen := l.headOf(w, image, exact, now, calls), image.Notes.Of(w.batch)
	var note *schema.Note
	if l.contest, note = l.contest.SeeNote(seen, now).SeeSlots(h, seen, now); note != nil {
		w.note = &leaving{note: note, seen: seen}
	}
	if !h.Slots && h.Aside == 0 && !l.contest.IsContended(now) {
		return 0, 0, false
	}
	if w.try.At == 0 {
		w.try.Chance = rand.Float64()
	}
	w.try, try = l.contest.NextTry(h, seen, w.try, now)
	return try, l.contest.NextLook(h, seen, looked, w.try.Chance, now), true
}

// seeNote records the note of an image.
func (l *Line) seeNote(n *schema.Note, now float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contest = l.contest.SeeNote(n, now)
}

// look records the answer to a read of the bucket.
func (l *Line) look(now float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contest = l.contest.RecordLook(now)
}

// staleFor returns the age of an image in ms from which a write of takes reads the bucket first; 0 without a waiter's
// try, and if no other process competes.
func (l *Line) staleFor(takes []*Op, image *schema.Image, now int64) int64 {
	batch := l.first != nil
	if image == nil || !slices.ContainsFunc(takes, func(o *Op) bool { return o.Waiter != nil && o.Batch == batch }) {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.contest.TryImage(image.Notes.Of(batch), float64(now))
}

// leaveNotes makes a decided write leave the notes of the waiters whose takes it carries.
func (c *claims) leaveNotes(w *plan.Write, carried []*Op, rows plan.Rows, v plan.View) {
	if len(c.heads) > 0 && c.contest.IsContended(float64(v.Now)) {
		w.LeaveNote(c.noteOf(carried, rows, v, false), false)
	}
	if b := c.batches; b != nil && len(b.heads) > 0 && b.contest.IsContended(float64(v.Now)) {
		w.LeaveNote(b.noteOf(carried, rows, v, true), true)
	}
}

// noteOf returns the note of a class that a write of ops leaves; nil if it carries no take of such a waiter.
func (c *claims) noteOf(ops []*Op, rows plan.Rows, v plan.View, batch bool) *schema.Note {
	first := slices.IndexFunc(ops, func(o *Op) bool { return o.Waiter != nil && o.Batch == batch })
	if first < 0 || v.Image == nil {
		return nil
	}
	o, now, r := ops[first], float64(v.Now), v.Reading()
	r.Batch = batch
	h := plan.HeadOf(r, c.contest.Lane, o.Waiter.came, now, o.Amounts, nil, plan.Calls{})
	return c.contest.NextNote(h, v.Image.Notes.Of(batch), rows.IdleTime(batch), now)
}

// mute records that the process's role may not write notes.
func (l *Line) mute(now float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contest = l.contest.MuteNotes(now)
}

// won records that a take of waiters has landed, with the image after it: all of them draw their next tries anew.
func (l *Line) won(image *schema.Image, now float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.contest = l.contest.RecordWin(now); image != nil {
		l.contest = l.contest.SeeNote(image.Notes.Of(l.first != nil), now)
	}
	for _, w := range l.waiters {
		w.try = plan.Try{}
	}
}

// lost records that a try of waiters came too late: others were first. The try is the head's, and the others came
// along. image is the bucket then. The head leaves the note that its waiter now has, if any.
func (l *Line) lost(tried []*Waiter, image *schema.Image, now float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(tried, func(w *Waiter) bool { return w.batch == (l.first != nil) && w.head })
	if at < 0 || image == nil || tried[at].cfg == nil {
		return
	}
	w, seen := tried[at], image.Notes.Of(l.first != nil)
	r := plan.Reading{Image: image, Config: w.cfg, Now: int64(now), Batch: w.batch}
	var f plan.Forecast
	wait, _ := f.Wait(r, w.amounts)
	var note *schema.Note
	l.contest, note = l.contest.RecordLoss(l.headOf(w, image, float64(r.Now+wait), now, plan.Calls{}), seen, now)
	if w.try, w.note = (plan.Try{}), nil; note == nil {
		return
	}
	if note.Until > note.At { // a reservation
		w.try.At = now
		note.Needs = make([]int64, len(image.Set.Names))
		for i, name := range image.Set.Names {
			note.Needs[i], _ = plan.AmountOf(w.amounts, name)
		}
	}
	w.note = &leaving{note: note, seen: seen}
}

// leaving is a note that a head leaves in the item in place of the one that was seen, nil for none.
type leaving struct{ note, seen *schema.Note }

// takeNote returns the note that a waiter has to leave, once; nil without one.
func (l *Line) takeNote(w *Waiter) *leaving {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := w.note
	w.note = nil
	return n
}
