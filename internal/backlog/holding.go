package backlog

import "github.com/dynalimit/dynalimit/internal/bucket"

// Holding is what one level of a lease has of one limit. It is not safe for concurrent
// use.
type Holding struct {
	// Name is the limit's.
	Name string
	// Held was taken by the bucket, as an answered write says, in Window. It alone is given back.
	Held   int64
	Window bucket.WindowID
	// Counted was admitted or used without the bucket. It is told to the bucket's counter
	// and never to its tokens.
	Counted int64
	// down is what of Counted was beyond the deepest debt of the limit, or beyond one in shadow,
	// and past what was taken in a window that has ended: a write of the bucket counted both.
	down, past int64
	// Doubt was perhaps charged: no answer told. It is not charged again, and never given
	// back.
	Doubt int64
	// Gone was taken from a bucket that does not exist any more. It stays consumed.
	Gone int64
	// Vain is not used, and never given back again: it was perhaps given back, or is doubt
	// that was given up.
	Vain int64
}

// Correction is what has to happen so that a holding uses a target. At most one of Charge
// and the others is above 0.
type Correction struct {
	// Charge is to be charged; if the bucket does not answer, counted.
	Charge int64
	// Uncount comes off what is counted, whether that has been told or not. GiveUp is doubt
	// that is not used any more. Back is to be given back of what is held.
	Uncount, GiveUp, Back int64
}

// Used is what the level has in all; all of it counts as consumed.
func (h *Holding) Used() int64 { return h.Held + h.Counted + h.Doubt + h.Gone }

// To is what is missing so that the holding uses target. What is lowered comes off what is
// counted first, then off doubt, then off what is held; what is gone stays.
func (h *Holding) To(target int64) Correction {
	change := target - h.Used()
	if change >= 0 {
		return Correction{Charge: change}
	}
	c := Correction{Uncount: min(-change, h.Counted)}
	c.GiveUp = min(-change-c.Uncount, h.Doubt)
	c.Back = min(-change-c.Uncount-c.GiveUp, h.Held)
	return c
}

// GiveUp takes doubt off what is used.
func (h *Holding) GiveUp(amount int64) {
	h.Doubt -= amount
	h.Vain += amount
}

// Landed learns that a charge in doubt was taken by the bucket after all, in a window. What of
// it was given up meanwhile stays in vain.
func (h *Holding) Landed(amount int64, window bucket.WindowID) {
	n := min(amount, h.Doubt)
	h.Doubt -= n
	h.Take(n, window)
}

// Take books what the bucket took in a window. What was taken in an earlier one can only come
// off the counter any more, as what is counted does.
func (h *Holding) Take(amount int64, window bucket.WindowID) {
	if window != h.Window {
		h.Counted += h.Held
		h.past += h.Held
		h.Held, h.Window = 0, window
	}
	h.Held += amount
}

// WriteDown counts what a charge that was written left beyond the deepest debt.
func (h *Holding) WriteDown(amount int64) {
	h.Counted += amount
	h.down += amount
}

// LandedDown is WriteDown of a charge that was in doubt.
func (h *Holding) LandedDown(amount int64) {
	n := min(amount, h.Doubt)
	h.Doubt -= n
	h.WriteDown(n)
}

// Uncharged is what is used beyond the deepest debt, or beyond a limit in shadow.
func (h *Holding) Uncharged() int64 { return h.down }

// Uncount takes an amount off what is counted: first off what is uncharged. It returns what of it
// a write of the bucket had counted; the rest had been admitted or used without the bucket.
func (h *Holding) Uncount(amount int64) (written int64) {
	down := min(amount, h.down)
	past := min(amount-down, h.past)
	h.Counted, h.down, h.past = h.Counted-amount, h.down-down, h.past-past
	return down + past
}

// Unwritten learns that a charge in doubt was surely not written: it is counted.
func (h *Holding) Unwritten(amount int64) {
	n := min(amount, h.Doubt)
	h.Doubt -= n
	h.Counted += n
}

// GiveBack takes a give-back off what is held: one that was written, or that waits to be
// written once.
func (h *Holding) GiveBack(amount int64) { h.Held -= amount }

// GiveInVain books a give-back for which no answer told whether it was written.
func (h *Holding) GiveInVain(amount int64) {
	h.Held -= amount
	h.Vain += amount
}

// BucketDeleted notes that the bucket from which the held amount was taken, and that counted what
// it did not charge, does not exist any more.
func (h *Holding) BucketDeleted() {
	written := h.Uncount(h.down + h.past)
	h.Gone += h.Held + written
	h.Held = 0
}

// Join adds what another holding of the same limit has. The other must not be used any
// more.
func (h *Holding) Join(other *Holding) {
	if other.Held > 0 {
		h.Take(other.Held, other.Window)
	}
	h.Counted += other.Counted
	h.down += other.down
	h.past += other.past
	h.Doubt += other.Doubt
	h.Gone += other.Gone
	h.Vain += other.Vain
}
