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

// instant converts Unix ms with fractions to a time, rounded up to a microsecond.
func instant(ms float64) time.Time { return time.UnixMicro(int64(math.Ceil(ms * 1000))) }

// headOf returns the facts of a waiter as the line's head for the contest, by an image under its configuration.
// They include the amounts of the whole line. The waiter's are there at the instant exact, in Unix ms. The lock l.mu
// must be held.
func (l *Line) headOf(w *Waiter, image *schema.Image, exact, now float64, calls plan.Calls) plan.Head {
	line := l.behind
	for _, o := range l.waiters {
		if o.head && !o.served {
			line = plan.Plus(line, o.amounts)
		}
	}
	return plan.HeadOf(plan.Reading{Image: image, Config: w.cfg, Now: int64(now), Batch: w.batch}, l.contest.Lane, w.came, exact, w.amounts, line, calls)
}

// isContended reports whether waiters of this line's class in other processes compete for the bucket at now, by
// their notes and by lost tries.
func (l *Line) isContended(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.contest.IsContended(milliseconds(now))
}

// nextTry returns the instants of a head's next try and next read, in Unix ms; its amounts are there at exact,
// looked is its last read. It updates the contest, and may give the waiter a note to leave. ok is false if no
// other process competes or has a reservation and the head waits for no slot, and for an image that is nil or
// of another configuration.
func (l *Line) nextTry(w *Waiter, image *schema.Image, calls plan.Calls, exact, looked, now float64) (try, look float64, ok bool) {
	ahead := l.first.claims()
	l.mu.Lock()
	defer l.mu.Unlock()
	if image == nil || w.cfg == nil || !w.cfg.Wrote(image) {
		return 0, 0, false
	}
	h, seen := l.headOf(w, image, exact, now, calls), image.Notes.NoteFor(w.batch)
	if h.Reserved > 0 {
		before, r := l.forecast(&ahead, plan.Reading{Image: image, Config: w.cfg, Now: int64(now)})
		before.PromiseReserved(r, l.contest.Lane)
		for _, o := range l.waiters {
			if o.head && !o.served && o.Rank < w.Rank {
				before.Serve(r, o.amounts)
			}
		}
		h = h.StandAside(r, before, w.amounts)
	}
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

// seeNote records the note of an image in the line's contest: a note of another lane makes the line compete for
// a while. n may be nil.
func (l *Line) seeNote(n *schema.Note, now float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contest = l.contest.SeeNote(n, now)
}

// recordLook records in the line's contest that the bucket was read at now, in Unix ms. A head that then sees
// plenty may try at once.
func (l *Line) recordLook(now float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contest = l.contest.RecordLook(now)
}

// staleFor returns the age of an image in ms from which a write of takes reads the bucket first. It is 0 if no
// take is of a waiter of this line's class, without an image, and if no other process competes.
func (l *Line) staleFor(takes []*Op, image *schema.Image, now int64) int64 {
	batch := l.first != nil
	if image == nil || !slices.ContainsFunc(takes, func(o *Op) bool { return o.Waiter != nil && o.Batch == batch }) {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.contest.TryImage(image.Notes.NoteFor(batch), float64(now))
}

// leaveNotes adds to a decided write the notes of the waiters whose takes it carries, one for each class of
// waiters. It adds none while no other process competes.
func (c *claims) leaveNotes(w *plan.Write, carried []*Op, rows plan.Rows, v plan.View) {
	if len(c.heads) > 0 && c.contest.IsContended(float64(v.Now)) {
		w.LeaveNote(c.noteOf(carried, rows, v, false), false)
	}
	if b := c.batches; b != nil && len(b.heads) > 0 && b.contest.IsContended(float64(v.Now)) {
		w.LeaveNote(b.noteOf(carried, rows, v, true), true)
	}
}

// noteOf returns the note that a write of ops leaves for a class of waiters, made from the first waiter of the
// class in ops. It is nil without such a waiter or an image, or if the contest leaves none.
func (c *claims) noteOf(ops []*Op, rows plan.Rows, v plan.View, batch bool) *schema.Note {
	first := slices.IndexFunc(ops, func(o *Op) bool { return o.Waiter != nil && o.Batch == batch })
	if first < 0 || v.Image == nil {
		return nil
	}
	o, now, r := ops[first], float64(v.Now), v.Reading()
	r.Batch = batch
	h := plan.HeadOf(r, c.contest.Lane, o.Waiter.came, now, o.Amounts, nil, plan.Calls{})
	return c.contest.NextNote(h, v.Image.Notes.NoteFor(batch), rows.IdleTime(batch), now)
}

// muteNotes records in the line's contest that the process's role must not write notes, so that the line leaves
// none for ten minutes.
func (l *Line) muteNotes(now float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contest = l.contest.MuteNotes(now)
}

// recordWin records in the line's contest that a take of waiters has landed, with the image after it. It resets
// the next try of every waiter in line.
func (l *Line) recordWin(image *schema.Image, now float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.contest = l.contest.RecordWin(now); image != nil {
		l.contest = l.contest.SeeNote(image.Notes.NoteFor(l.first != nil), now)
	}
	for _, w := range l.waiters {
		w.try = plan.Try{}
	}
}

// recordLoss records in the line's contest that a head's try came too late, because others were first. It
// resets the head's next try, and may give it a note to leave. It does nothing if tried has no head of this
// line, or if image, the bucket then, is nil.
func (l *Line) recordLoss(tried []*Waiter, image *schema.Image, now float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(tried, func(w *Waiter) bool { return slices.Contains(l.waiters, w) && w.head }) // one that went on may stand in another line
	if at < 0 || image == nil || tried[at].cfg == nil {
		return
	}
	w, seen := tried[at], image.Notes.NoteFor(l.first != nil)
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

// takeNote removes and returns the note that a waiter has to leave; nil without one.
func (l *Line) takeNote(w *Waiter) *leaving {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := w.note
	w.note = nil
	return n
}
