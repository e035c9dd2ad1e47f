package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Waiters for a slot compete by the age in the note, too, but nobody knows when a slot comes back. So their heads
// look at the bucket instead of trying at an instant. A slot that comes back in the head's own process is for the
// head only if that is due, and otherwise stays in the item. Everything here is pure.

const (
	// A due head looks first after firstSlotLook, and each further time after one and a half times as long. That
	// is an eighth (slotLooks) of the mean time until a slot comes back at most, from leastSlotLook to mostSlotLook.
	firstSlotLook = 25
	slotLooks     = 8
	leastSlotLook = 100
	mostSlotLook  = 400
	// unknownSlot is the mean time until a slot comes back before a call of the process has ended.
	unknownSlot = 2000
	// slotFreeFor is the number of longest waits between two looks of due heads after which a free slot is
	// anybody's, because no head is due.
	slotFreeFor = 1.5
	// ageMoves is the part of the difference between a head's age and the note's by which a take of slots moves
	// that.
	ageMoves = 1. / 8
	// farOff is the time until the try of a head that only looks.
	farOff = 3_600_000
)

// Calls is a process's knowledge of the calls in a bucket with slots.
type Calls struct {
	// Mean is the mean duration of its last calls, in ms; 0 before one has ended.
	Mean float64
	// Shared means that other processes use the bucket.
	Shared bool
}

// slotTime returns the mean time in ms until a millislot comes back: the mean duration of calls divided by the
// burst. It is 2, which is two seconds a slot, before a call has ended.
func (c Calls) slotTime(r bucket.Rate) float64 {
	if c.Mean == 0 {
		return unknownSlot / 1000.
	}
	return c.Mean / float64(r.Burst)
}

// SeeSlots returns the contest after a head saw an image. Without a free slot in a shared bucket, the lane of a
// head that waits for one competes for at least ten seconds. It also returns the note with which the head then
// raises the age; nil without one.
func (c Contest) SeeSlots(h Head, n *schema.Note, now float64) (Contest, *schema.Note) {
	switch {
	case !h.Slots:
		return c, nil
	case h.Free:
		if c.free == 0 {
			c.free = now
		}
		return c, nil
	}
	if c.free = 0; !h.Shared {
		return c, nil
	}
	c.until = max(c.until, now+max(contendedFor, contendedAges*ageOf(n)))
	age := now - h.Came
	if age <= raiseAges*ageOf(n)+raiseTime || h.Reserved > 0 || now < max(c.muted, c.raised+lookEvery) {
		return c, nil
	}
	c.raised = now
	return c, &schema.Note{Until: int64(now), At: int64(now), Lane: c.Lane, Age: age, Spread: max(leastSpread, spreadOf(n))}
}

// slotDue returns the instant, in ms, until which a head leaves a free slot to others; its arrival if no other
// lane competes.
func (c Contest) slotDue(h Head, n *schema.Note, now float64) float64 {
	if !c.IsContended(now) {
		return h.Came
	}
	return h.Came + standAside*ageOf(n)
}

// nextSlotTry returns the instant, in ms, of the try of a head that waits for a slot. It does not stand aside
// if slots are plentiful or long free. It is an hour off while the image shows no free slot.
func (c Contest) nextSlotTry(h Head, n *schema.Note, now float64) float64 {
	switch {
	case !h.Free:
		return now + farOff
	case h.Plenty, c.wasLeft(h, now):
		return h.Exact
	}
	return max(h.Exact, c.slotDue(h, n, now))
}

// wasLeft reports whether images have shown a free slot for so long that no head of another lane is due.
func (c Contest) wasLeft(h Head, now float64) bool {
	return c.free > 0 && now-c.free >= slotFreeFor*h.mostSlotLook()
}

// mostSlotLook returns the longest time between two reads of the bucket by a due head, in ms. It is an eighth
// of the mean time until a slot comes back, from 100 to 400.
func (h Head) mostSlotLook() float64 {
	return min(mostSlotLook, max(leastSlotLook, h.Token/slotLooks))
}

// NextLook returns the instant, in ms, of the next read of the bucket by a contended lane, or by a head that
// needs a slot. seen is the instant of the last read, and chance, in [0, 1), spreads the reads.
func (c Contest) NextLook(h Head, n *schema.Note, seen, chance, now float64) float64 {
	look := seen + c.LookEvery(h, n)*(1+chance/8)
	if !h.Slots || !h.Shared {
		return look
	}
	due := c.slotDue(h, n, now)
	gap := min(h.mostSlotLook(), firstSlotLook+max(0, seen-due)/2) // a series of gaps that grow by half
	return min(look, max(seen, due)+(.5+chance)*gap)
}
