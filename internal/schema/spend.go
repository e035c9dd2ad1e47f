package schema

import "slices"

// Spend is the usual write. It changes the tokens and counters of some limits and leaves the refill instant
// unchanged, so that spends of different clients commute. It lands if the item has the refill instant and the
// fingerprint of the image, an expiry that is late enough or none, and each limit of the write with tokens
// within the bounds of its change. Op adds the condition on its slot, and Backs that on the incarnation.
type Spend struct {
	Seen *Image
	// Limits are in the order of their places, at least one.
	Limits []Change
	// TTL is the earliest expiry that the write may leave; 0 for any.
	TTL int64
	// LaterRefill also accepts a later refill instant than the seen one. It is set for an adjust with bounds
	// that hold for any instant (High must allow no excess).
	LaterRefill bool
	// Backs means that the write gives tokens back, so the item must be the same incarnation as the image.
	Backs bool
	// Notes replace the notes of waiters, that of batch waiters last; nil leaves them.
	Notes []NextNote
	Op    Op
}

// Statement returns the conditional update, with the conditions that Spend names. Its text comes from a cache,
// except for a spend of slots. The Names are shared, so callers must not change them.
func (s *Spend) Statement() Statement {
	var shapeRoom [96]byte
	var room [32]operand
	shape, operands := s.encode(shapeRoom[:0], room[:0])
	if s.Seen.Set.Slots && s.movesSlots() { // the names of epochs change all the time
		return s.text().withValues(operands)
	}
	return s.Seen.Set.texts.textOf(s.Seen.Set, shape, s).withValues(operands)
}

// movesSlots reports whether the write changes a limit of calls in flight.
func (s *Spend) movesSlots() bool {
	return slices.ContainsFunc(s.Limits, func(c Change) bool { return c.Slots != nil })
}

// encode appends to shape the properties that decide the text, apart from the set: the options of the write,
// then each limit with its form. It appends the values to o, in the order of the placeholders that text makes. It
// returns both longer slices. The shape lacks the limits of calls in flight, whose texts are not cached.
func (s *Spend) encode(shape []byte, o []operand) ([]byte, []operand) {
	flag := func(set bool, bit byte) byte {
		if set {
			return bit
		}
		return 0
	}
	notes, ofIncarnation := byte(0), s.Backs && s.Seen.Incarnation != nil
	o = append(o, operand{bytes: s.Op.ID})
	for i := range s.Notes {
		notes |= 16 << flag(s.Notes[i].Batch, 1)
		o = append(o, operand{bytes: s.Notes[i].Note})
	}
	if s.Op.Rule != OpAny {
		o = append(o, operand{bytes: s.Op.Required})
	}
	o = append(o, operand{number: s.Seen.Refilled}, operand{bytes: s.Seen.Fingerprint})
	if ofIncarnation {
		o = append(o, operand{bytes: s.Seen.Incarnation})
	}
	if s.TTL > 0 {
		o = append(o, operand{number: s.TTL})
	}
	shape = append(shape, byte(s.Op.Slot), byte(s.Op.Rule), flag(s.LaterRefill, 1)|flag(s.TTL > 0, 2)|
		flag(s.Backs, 4)|flag(ofIncarnation, 8)|notes)
	for i := range s.Limits {
		c := &s.Limits[i]
		seen, tokens := &s.Seen.Limits[c.Place], c.Add
		if c.SameLife && seen.Life > 0 {
			o = append(o, operand{number: int64(seen.Life)})
		}
		if c.Slots != nil {
			o = c.slotsOperands(o)
			continue
		}
		if c.Full {
			tokens = c.Put
		}
		o = append(o, operand{number: tokens}, operand{number: c.Consumed})
		if c.Passed != 0 {
			o = append(o, operand{number: c.Passed})
		}
		if c.Quota {
			o = append(o, operand{number: int64(seen.Window)})
		}
		if c.Full || c.HasLow {
			o = append(o, operand{number: c.Low})
		}
		if !c.Full && !c.Quota {
			o = append(o, operand{number: c.High})
		}
		shape = append(shape, byte(c.Place>>8), byte(c.Place), flag(c.HasLow, 1)|flag(c.Full, 2)|flag(c.Passed != 0, 4)|
			flag(c.SameLife, 8)|flag(seen.Life > 0, 16)) // an item of 400 KB has fewer than 2^16
	}
	return shape, o
}

// slotsOperands appends the values of a limit of calls in flight to o, and returns the longer slice. They are
// in the order of the placeholders of slotsText.
func (c *Change) slotsOperands(o []operand) []operand {
	o = append(o, operand{number: c.Add})
	if c.HasLow {
		o = append(o, operand{number: c.Low})
	}
	for _, e := range c.Slots.Changes() {
		if e.Least > 0 {
			o = append(o, operand{number: e.Least})
		}
		if e.Add != 0 {
			o = append(o, operand{number: e.Add})
		}
	}
	for _, e := range c.Slots.Past {
		o = append(o, operand{number: e.Slots})
	}
	return o
}
