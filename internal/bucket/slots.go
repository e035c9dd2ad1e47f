package bucket

import (
	"math"
	"slices"
)

// A limit of calls in flight is a bucket of slots. A call takes slots and gives them back when it ends; time
// gives nothing back. The item counts the taken slots by the epoch of the end of their hold. So the slots of a
// dead process come back: a write removes past epochs and frees their slots. The slots of a longer call move
// to a later epoch. The free slots and those of all epochs always sum to the burst. Everything here is pure,
// in millislots; instants are Unix ms.

// Slots returns the rate of a limit of calls in flight: n millislots with a hold in ms. Its period is 0.
func Slots(n, hold int64) Rate { return Rate{Burst: n, Amount: hold} }

// IsSlots reports whether the rate is a rate of slots.
func (r Rate) IsSlots() bool { return r.Period == 0 && r.Amount > 0 }

// Hold returns the hold of slots in ms. It is 1 if the rate is that of a stored limit, which lacks it.
func (r Rate) Hold() int64 { return r.Amount }

// SlotLookMS is the wait in ms for a slot: the time until the next look, because calls end at any time.
const SlotLookMS = 250

const (
	// EpochsPerHold is the number of epochs in a hold.
	EpochsPerHold = 8
	// mostPast bounds the past epochs that one write removes. An item has at most a dozen of them, unless the
	// hold was lowered.
	mostPast = 16
)

// Epoch is an epoch with its taken slots. Their hold ends with it, at End in Unix seconds.
type Epoch struct{ End, Slots int64 }

// epochLength returns the length of an epoch in ms: an eighth of the hold, at least a second.
func epochLength(hold int64) int64 { return max(hold/EpochsPerHold, 1000) }

// EpochEnd returns the end, in Unix seconds, of the epoch for a hold, in ms, from now on, in Unix ms.
func EpochEnd(now, hold int64) int64 {
	length := epochLength(hold)
	end := (now + hold + length - 1) / length * length
	return (end + 999) / 1000
}

// IsPast reports whether the slots of an epoch are free again at now, in Unix ms. That is an epoch's length
// after its end, because clocks differ.
func (e Epoch) IsPast(hold, now int64) bool { return now > e.End*1000+epochLength(hold) }

// Occupied are the slots of a process at one limit.
type Occupied struct {
	// Open is the need of the open calls. The item surely has the slots of Epochs for them. After a write
	// without an answer it has the slots of Doubtful until the end of their epoch.
	Open             int64
	Epochs, Doubtful []Epoch
}

// Moves is the change of a limit's slots by one write.
type Moves struct {
	// End is the epoch of new, renewed and recounted slots. New is the number of slots for new calls.
	End, New int64
	// Past are past epochs of the item. The write removes them if they are as seen.
	Past []Epoch
	// The process gives the slots of Back back, and moves those of Renewed to End.
	Back, Renewed []Epoch
	// Again is the number of slots to take again, without a lower bound: for open calls after the end of their
	// hold, and for calls admitted without the item.
	Again int64
}

// DecideMoves returns the moves of a write at now, without New. stored are the epochs of the item. The write
// renews slots within half a hold of their end.
func (o Occupied) DecideMoves(stored []Epoch, hold, now int64) Moves {
	m := Moves{End: EpochEnd(now, hold)}
	for _, e := range stored {
		if e.IsPast(hold, now) && len(m.Past) < mostPast {
			m.Past = append(m.Past, e)
		}
	}
	o.Expire(now)
	surplus := SumSlots(o.Epochs) + SumSlots(o.Doubtful) - o.Open
	m.Again = max(0, -surplus)
	for _, e := range o.Epochs { // the earliest first
		back := min(max(0, surplus), e.Slots)
		if back > 0 {
			m.Back = append(m.Back, Epoch{e.End, back})
			surplus -= back
		}
		if stays := e.Slots - back; stays > 0 && e.End < m.End && e.End*1000 <= now+hold/2 {
			m.Renewed = append(m.Renewed, Epoch{e.End, stays})
		}
	}
	return m
}

// Free returns the net number of slots that the moves free in the item, without those of New, in millislots. It
// is below 0 if the moves take more.
func (m *Moves) Free() int64 { return SumSlots(m.Past) + SumSlots(m.Back) - m.Again }

// ChangesHeld reports whether the moves give back, renew or take again slots of the process. Slots for new calls and
// removed past epochs do not count.
func (m *Moves) ChangesHeld() bool { return len(m.Back) > 0 || len(m.Renewed) > 0 || m.Again > 0 }

// EpochChange is the change of one epoch of an item by a write. It adds Add to the slots and requires at least
// Least of them. Least is 0 if no slot of the process leaves the epoch.
type EpochChange struct{ End, Least, Add int64 }

// Changes returns the changes of the epochs of the item by the moves, without the removal of past epochs. An
// epoch occurs once.
func (m *Moves) Changes() []EpochChange {
	var changes []EpochChange
	for _, e := range m.movedOut() {
		changes = append(changes, EpochChange{End: e.End, Least: e.Slots, Add: -e.Slots})
	}
	in := m.movedIn()
	if in == 0 {
		return changes
	}
	if i := slices.IndexFunc(changes, func(c EpochChange) bool { return c.End == m.End }); i >= 0 {
		changes[i].Add += in
		return changes
	}
	return append(changes, EpochChange{End: m.End, Add: in})
}

// movedIn returns the number of slots that come into the epoch End, in millislots: new, taken again and renewed
// ones.
func (m *Moves) movedIn() int64 { return m.New + m.Again + SumSlots(m.Renewed) }

// movedOut returns the slots of the process that leave their epochs, given back or renewed, by epoch in order
// of their ends.
func (m *Moves) movedOut() (all []Epoch) {
	for _, list := range [][]Epoch{m.Back, m.Renewed} {
		for _, e := range list {
			all = addSlots(all, e)
		}
	}
	return all
}

// IsHolding reports whether slots come into the epoch End: new, taken again or renewed ones.
func (m *Moves) IsHolding() bool { return m.movedIn() > 0 }

// Expire drops epochs that have ended at now, in Unix ms: the process has lost their slots. Copies of o keep
// their lists.
func (o *Occupied) Expire(now int64) {
	ended := func(e Epoch) bool { return e.End*1000 <= now }
	if slices.ContainsFunc(o.Epochs, ended) {
		o.Epochs = slices.DeleteFunc(slices.Clone(o.Epochs), ended)
	}
	if slices.ContainsFunc(o.Doubtful, ended) {
		o.Doubtful = slices.DeleteFunc(slices.Clone(o.Doubtful), ended)
	}
}

// Landed applies the moves of a landed write to the slots of the process: slots given back leave, renewed and
// new ones stand in m.End. New slots count as open. Copies of o keep their lists.
func (o *Occupied) Landed(m *Moves) {
	o.dropLeaving(m)
	o.Open += m.New
	if n := m.movedIn(); n > 0 {
		o.Epochs = addSlots(slices.Clone(o.Epochs), Epoch{m.End, n})
	}
}

// Unanswered applies the moves of a write without an answer. The process does not give its slots back again,
// and a moved slot counts until its old end. New slots belong to no call, and the next write takes slots again
// once more.
func (o *Occupied) Unanswered(m *Moves) {
	o.dropLeaving(m)
	for _, e := range m.Renewed {
		o.Doubtful = addSlots(slices.Clone(o.Doubtful), e)
	}
}

// dropLeaving takes the slots that leave their epochs by the moves off o.Epochs. Copies of o keep their lists.
func (o *Occupied) dropLeaving(m *Moves) {
	for _, e := range m.movedOut() {
		o.Epochs = addSlots(slices.Clone(o.Epochs), Epoch{e.End, -e.Slots})
	}
}

// Lapse drops n millislots from the epochs, the earliest first, and lowers Open by n. They stay in the item
// until their hold runs out.
func (o *Occupied) Lapse(n int64) {
	o.Open -= n
	for len(o.Epochs) > 0 && n > 0 {
		gone := min(n, o.Epochs[0].Slots)
		n -= gone
		o.Epochs = addSlots(slices.Clone(o.Epochs), Epoch{o.Epochs[0].End, -gone})
	}
}

// Due returns the instant, in Unix ms, of the next write for the slots alone, and changes nothing. That is now
// if slots are to be given back or taken again, and half a hold before their end to renew them. It is Never
// without slots.
func (o Occupied) Due(hold, now int64) int64 {
	o.Expire(now)
	known := SumSlots(o.Epochs) + SumSlots(o.Doubtful)
	if known < o.Open || known > o.Open && len(o.Epochs) > 0 {
		return now
	}
	due := int64(math.MaxInt64)
	if len(o.Epochs) > 0 {
		due = max(now, o.Epochs[0].End*1000-hold/2)
	}
	if len(o.Doubtful) > 0 && o.Open > 0 {
		due = min(due, o.Doubtful[0].End*1000)
	}
	if due == math.MaxInt64 {
		return Never
	}
	return due
}

// PastSlots returns the number of slots of past epochs at now, in millislots: a write may free them. The hold
// is in ms, and now in Unix ms.
func PastSlots(stored []Epoch, hold, now int64) (n int64) {
	for _, e := range stored {
		if e.IsPast(hold, now) {
			n += e.Slots
		}
	}
	return n
}

// LastEnd returns the latest end of epochs with slots, in Unix ms; 0 without one.
func LastEnd(stored []Epoch) (ms int64) {
	for _, e := range stored {
		if e.Slots != 0 {
			ms = max(ms, e.End*1000)
		}
	}
	return ms
}

// addSlots adds slots to their epoch in a list, in place, and returns the list. The list is in the order of the
// ends, and an empty epoch leaves it.
func addSlots(list []Epoch, e Epoch) []Epoch {
	i, there := slices.BinarySearchFunc(list, e.End, func(x Epoch, end int64) int { return int(x.End - end) })
	if !there {
		return slices.Insert(list, i, e)
	}
	if list[i].Slots += e.Slots; list[i].Slots == 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// SumSlots returns the number of slots of all epochs, in millislots.
func SumSlots(list []Epoch) (n int64) {
	for _, e := range list {
		n += e.Slots
	}
	return n
}

// SlotsSince returns the window of slots that were taken in a second since the origin of the process, at least
// 1. The item does not have that window.
func SlotsSince(second int64) WindowID { return InLife(0, -max(1, second)) }

// IsSlots reports whether the window is a window of slots, see SlotsSince. It is false for Closed.
func (w WindowID) IsSlots() bool { return w.Ordinal() < 0 && w != Closed }
