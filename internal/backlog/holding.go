package backlog

import "github.com/dynalimit/dynalimit/internal/bucket"

// Holding is the balance of one limit at one level of a lease. It is not safe for concurrent use.
type Holding struct {
	// Name is the name of the limit.
	Name string
	// Held was taken by the bucket in Window, by an answered write. It alone is given back. A give-back that was
	// written, or waits for its one write, is no part of it, and counted nowhere else.
	Held   int64
	Window bucket.WindowID
	// Counted was admitted or used without the bucket. It is added to the bucket's counter and never to its
	// tokens.
	Counted int64
	// down is the part of Counted beyond the deepest debt of the limit, or beyond a limit in shadow. past is
	// the part taken in a window that has ended. A write of the bucket counted both. slots is the part that the
	// process keeps as slots of calls in flight, whatever the kind of the limit is by now. since is the window of
	// the first of slots.
	down, past, slots int64
	since             bucket.WindowID
	// Doubt was perhaps charged: the write got no answer. It is not charged again and never given back.
	Doubt int64
	// Gone was taken from a bucket that does not exist any more. It stays consumed.
	Gone int64
	// Vain is unused and never given back again. Either its give-back got no answer, or it is doubt that was
	// given up.
	Vain int64
}

// Correction is the change that brings a holding to a target. At most one of Charge and the others is above
// 0.
type Correction struct {
	// Charge is to be charged or, if the bucket does not answer, counted.
	Charge int64
	// Uncount comes off the counted tokens, written or pending. GiveUp comes off the doubt. Back is to be
	// given back from the held tokens.
	Uncount, GiveUp, Back int64
}

// Used returns the sum of the held, counted, doubtful and gone tokens, in millitokens: the use that the lease
// reports.
func (h *Holding) Used() int64 { return h.Held + h.Counted + h.Doubt + h.Gone }

// CorrectTo returns the correction that brings usage to target, and changes nothing. A decrease is taken from
// counted, then doubtful, then held tokens; gone tokens stay.
func (h *Holding) CorrectTo(target int64) Correction {
	change := target - h.Used()
	if change >= 0 {
		return Correction{Charge: change}
	}
	c := Correction{Uncount: min(-change, h.Counted)}
	c.GiveUp = min(-change-c.Uncount, h.Doubt)
	c.Back = min(-change-c.Uncount-c.GiveUp, h.Held)
	return c
}

// GiveUp moves an amount from doubt to vain, so that Used does not count it any more. It is never given back.
func (h *Holding) GiveUp(amount int64) {
	h.Doubt -= amount
	h.Vain += amount
}

// Landed moves an amount from doubt to held, after proof that the bucket took it in window. Doubt that was
// given up meanwhile stays in vain.
func (h *Holding) Landed(amount int64, window bucket.WindowID) {
	n := min(amount, h.Doubt)
	h.Doubt -= n
	h.Take(n, window)
}

// Take adds an amount that the bucket took in a window. Held tokens of an earlier window become counted: they
// can be taken off the counter, but no longer given back to the bucket. Slots stay slots of the process.
func (h *Holding) Take(amount int64, window bucket.WindowID) {
	if window != h.Window && !(window.IsSlots() && h.Window.IsSlots() && h.Held > 0) { // slots of one lease are alike
		h.Counted += h.Held
		if h.Window.IsSlots() {
			h.addSlots(h.Held, h.Window)
		} else {
			h.past += h.Held
		}
		h.Held, h.Window = 0, window
	}
	h.Held += amount
}

// WriteDown adds an amount to the counted and the uncharged ones. A write put it on the counter alone, because
// it is beyond the deepest debt or beyond a limit in shadow.
func (h *Holding) WriteDown(amount int64) {
	h.Counted += amount
	h.down += amount
}

// LandedDown moves an amount from doubt to counted, as WriteDown counts it, after proof that a write put it on
// the counter alone. Doubt that was given up meanwhile stays in vain.
func (h *Holding) LandedDown(amount int64) {
	n := min(amount, h.Doubt)
	h.Doubt -= n
	h.WriteDown(n)
}

// Uncharged returns the usage that was counted and not charged, in millitokens: beyond the deepest debt, or
// beyond a limit in shadow.
func (h *Holding) Uncharged() int64 { return h.down }

// CountSlots adds to the counted amount slots of calls in flight that were admitted without the bucket in a
// window.
func (h *Holding) CountSlots(amount int64, window bucket.WindowID) {
	h.Counted += amount
	h.addSlots(amount, window)
}

// addSlots adds an amount to the slots of the process, which are part of the counted amount. The first ones set
// their window.
func (h *Holding) addSlots(amount int64, window bucket.WindowID) {
	if h.slots == 0 {
		h.since = window
	}
	h.slots += amount
}

// CountedSince returns the window of the first counted slots; 0 if slots were never counted.
func (h *Holding) CountedSince() bucket.WindowID { return h.since }

// HasSlots reports whether the lease used the limit as one of calls in flight. It then has counted slots, or
// took its last tokens in a window of slots.
func (h *Holding) HasSlots() bool { return h.slots > 0 || h.Window.IsSlots() }

// Uncount takes an amount off the counted tokens, the uncharged ones first. It returns the part that a write
// of the bucket had counted, and the part that is slots. The rest had been admitted or used without the bucket.
func (h *Holding) Uncount(amount int64) (written, slots int64) {
	down := min(amount, h.down)
	past := min(amount-down, h.past)
	slots = min(amount-down-past, h.slots)
	h.Counted, h.down, h.past, h.slots = h.Counted-amount, h.down-down, h.past-past, h.slots-slots
	return down + past, slots
}

// Unwritten moves an amount from doubt to counted, after proof that the charge was not written. Doubt that was
// given up meanwhile stays in vain.
func (h *Holding) Unwritten(amount int64) {
	n := min(amount, h.Doubt)
	h.Doubt -= n
	h.Counted += n
}

// GiveInVain moves an amount from held to vain, because its give-back got no answer. It is never given back
// again.
func (h *Holding) GiveInVain(amount int64) {
	h.Held -= amount
	h.Vain += amount
}

// BucketDeleted records the deletion of the bucket. Held tokens become gone, and so do tokens counted in the
// deleted bucket. A holding of slots stays as it is, because the process takes them again from the new bucket.
func (h *Holding) BucketDeleted() {
	if h.Window.IsSlots() { // the process takes them again from the new bucket
		return
	}
	written, _ := h.Uncount(h.down + h.past)
	h.Gone += h.Held + written
	h.Held = 0
}

// AddHolding adds another holding of the same limit, as Take does its held tokens. The caller must not use the other
// any more.
func (h *Holding) AddHolding(other *Holding) {
	if other.Held > 0 {
		h.Take(other.Held, other.Window)
	}
	h.Counted += other.Counted
	h.down += other.down
	h.past += other.past
	h.addSlots(other.slots, other.since)
	h.Doubt += other.Doubt
	h.Gone += other.Gone
	h.Vain += other.Vain
}
