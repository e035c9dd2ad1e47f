package schema

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
)

// Claim is the write that moves the refill instant. It credits every limit, and brings new configuration and
// a new expiry.
type Claim struct {
	Seen *Image
	// Refilled is the new refill instant. Fingerprint and ConfigRead are those of the configuration, and TTL
	// is the new expiry; 0 for no expiry.
	Refilled    int64
	Fingerprint []byte
	ConfigRead  int64
	TTL         int64
	// Backs means that the write gives tokens back, so the item must be the same incarnation as the image.
	Backs  bool
	Limits []Change
	// Notes replace the notes of waiters; nil leaves them.
	Notes []NextNote
	Op    Op
}

// Statement returns the conditional update, which sets the refill instant, the configuration's marks, the
// expiry and the notes, and changes the limits. It requires the refill instant and the fingerprint to be as in
// the image, and with Backs the incarnation too. Each change of a limit adds its own conditions.
func (c *Claim) Statement() Statement {
	b := newStatementBuilder()
	b.recordOp(c.Op)
	b.setValue(attrRefilled, Number(c.Refilled))
	b.setValue(attrFingerprint, Bytes(c.Fingerprint))
	b.setValue(attrConfigRead, Number(c.ConfigRead))
	if c.TTL > 0 {
		b.setValue(TTL, Number(c.TTL))
	} else {
		b.drop(TTL)
	}
	for _, n := range c.Notes {
		b.setValue(noteAttr(n.Batch), Bytes(n.Note))
	}
	b.requireExists(PK)
	if c.Seen.HasRefilled {
		b.requireCompare(attrRefilled, "=", Number(c.Seen.Refilled))
	} else {
		b.requireAbsent(attrRefilled)
	}
	if c.Seen.Fingerprint != nil {
		b.requireCompare(attrFingerprint, "=", Bytes(c.Seen.Fingerprint))
	} else {
		b.requireAbsent(attrFingerprint)
	}
	if c.Backs {
		b.requireIncarnation(c.Seen.Incarnation)
	}
	for i := range c.Limits {
		c.Limits[i].addToClaim(b, c.Seen)
	}
	return b.build()
}

// addToClaim adds a limit's part to a claim, by the kind of the change. An addition requires the limit to be
// absent. An adoption, a replacement and the removal of a ghost require it to be as in the image, the removal
// of a limit that it is full.
func (c *Change) addToClaim(b *statementBuilder, seen *Image) {
	a := attrsOf(c.Name, c.Quota)
	if c.Slots != nil {
		a = slotsAttrs(c.Name)
	}
	if c.Kind == AddLimit {
		b.requireAbsent(a.burst)
		b.requireAbsent(a.tokens)
		b.setValue(a.tokens, Number(c.Put))
		if c.Slots != nil {
			for _, e := range c.Slots.Changes() {
				b.setValue(a.epoch(e.End), Number(e.Add))
			}
		} else {
			b.setValue(a.consumed, Number(c.Consumed))
			c.addPassed(b, a)
		}
		c.beginLife(b, a)
		c.setParameters(b, a)
		return
	}
	switch was := &seen.Limits[c.Place]; c.Kind {
	case AdoptGhost:
		was.requireGhost(b, a)
		b.setValue(a.tokens, Number(c.Put))
		if c.Consumed != 0 {
			b.addNumber(a.consumed, c.Consumed)
		}
		c.addPassed(b, a)
		c.setParameters(b, a)
	case RemoveLimit:
		b.requireExists(a.burst)
		b.requireCompare(a.tokens, ">=", Number(c.Low))
		if c.Quota {
			b.requireCompare(a.window, "=", Number(int64(was.Window)))
		}
		b.dropLimit(a)
		b.dropEpochs(a, seen.Epochs(c.Place))
	case ReplaceLimit:
		b.requireCompare(a.burst, "=", Number(was.Burst))
		b.requireCompare(a.tokens, "=", Number(was.Tokens))
		b.requireEpochs(a, seen.Epochs(c.Place))
		b.dropEpochs(a, seen.Epochs(c.Place))
		if c.Slots == nil {
			b.requireCompare(a.consumed, "=", Number(was.Consumed))
			b.requirePassed(a, was.Passed)
		}
		if c.Quota {
			b.requireCompare(a.window, "=", Number(int64(was.Window)))
		}
		b.requireLife(a, was.Life)
		b.dropLimit(a)
	case RemoveGhost:
		was.requireGhost(b, a)
		b.dropLimit(a)
	default:
		c.addKept(b, a, was)
	}
}

// addKept adds the credit, spend and new parameters of a limit that stays, or the moves of slots. It requires
// the tokens to be within the change's bounds, and a quota to be in its window.
func (c *Change) addKept(b *statementBuilder, a limitAttrs, was *Stored) {
	b.requireExists(a.burst)
	if c.Quota {
		b.moveWindow(a, int64(was.Window), c.Window.Ordinal())
	}
	if c.SameLife {
		b.requireLife(a, was.Life)
	}
	c.beginLife(b, a)
	if c.Slots != nil {
		c.addSlotMoves(b, a)
		return
	}
	if c.Consumed != 0 {
		b.addNumber(a.consumed, c.Consumed)
	}
	c.addPassed(b, a)
	if c.HasLow {
		b.requireCompare(a.tokens, ">=", Number(c.Low))
	}
	if c.Full {
		b.setValue(a.tokens, Number(c.Put))
	} else {
		if c.High != bucket.MaxTokens {
			b.requireCompare(a.tokens, "<=", Number(c.High))
		}
		if c.Add != 0 {
			b.addNumber(a.tokens, c.Add)
		}
	}
	if c.To != nil {
		c.setParameters(b, a)
	}
}

// addPassed adds to the statement an ADD of Passed to the counter of amounts that a level above counts too. It
// adds nothing for 0, so that a bucket without a level above does not get the attribute.
func (c *Change) addPassed(b *statementBuilder, a limitAttrs) {
	if c.Passed != 0 {
		b.addNumber(a.passed, c.Passed)
	}
}

// requirePassed adds to the statement the condition that n is the counter of amounts that a level above counts
// too. For n = 0 the attribute may be absent.
func (b *statementBuilder) requirePassed(a limitAttrs, n int64) {
	if n != 0 {
		b.requireCompare(a.passed, "=", Number(n))
		return
	}
	place := b.name(a.passed)
	b.require("(attribute_not_exists(" + place + ") OR " + place + " = " + b.value(Number(0)) + ")")
}

// beginLife adds to the statement that the limit's stored life becomes that of c.Window, if the change begins a
// life. Otherwise it does nothing.
func (c *Change) beginLife(b *statementBuilder, a limitAttrs) {
	if c.Begins {
		b.setValue(a.life, Number(int64(c.Window.Life())))
	}
}

// requireGhost adds to the statement the condition that a ghost's burst and tokens are as in the image, each
// absent if it was.
func (l *Stored) requireGhost(b *statementBuilder, a limitAttrs) {
	if l.has&hasBurst != 0 {
		b.requireCompare(a.burst, "=", Number(l.Burst))
	} else {
		b.requireAbsent(a.burst)
	}
	if l.has&hasTokens != 0 {
		b.requireCompare(a.tokens, "=", Number(l.Tokens))
	} else {
		b.requireAbsent(a.tokens)
	}
}

// dropLimit adds to the statement the removal of a limit's attributes, except for its life, unit and epochs.
func (b *statementBuilder) dropLimit(a limitAttrs) {
	for _, attr := range a.allAlways() {
		b.drop(attr)
	}
	if a.passed != "" {
		b.drop(a.passed) // another process may have added to it since the image
	}
}

// requireEpochs adds to the statement the condition that the taken slots of each epoch in list are as seen,
// except for empty epochs. With the free slots as seen too, no other epoch has slots.
func (b *statementBuilder) requireEpochs(a limitAttrs, list []bucket.Epoch) {
	for _, e := range list {
		if e.Slots != 0 {
			b.requireCompare(a.epoch(e.End), "=", Number(e.Slots))
		}
	}
}

// dropEpochs adds to the statement the removal of the attributes of the epochs in list.
func (b *statementBuilder) dropEpochs(a limitAttrs, list []bucket.Epoch) {
	for _, e := range list {
		b.drop(a.epoch(e.End))
	}
}

// setParameters adds to the statement the parameters c.To of a limit. A token bucket has capacity, burst,
// refill amount and period, slots the burst alone. Of a quota it sets burst and windows and, unless the quota
// is kept, its open window.
func (c *Change) setParameters(b *statementBuilder, a limitAttrs) {
	if c.Slots != nil {
		b.setValue(a.burst, Number(c.To.Rate.Burst))
		return
	}
	if !c.Quota {
		b.setValue(a.capacity, Number(c.To.Capacity))
		b.setValue(a.burst, Number(c.To.Rate.Burst))
		b.setValue(a.amount, Number(c.To.Rate.Amount))
		b.setValue(a.period, Number(c.To.Rate.Period))
		return
	}
	b.setValue(a.burst, Number(c.To.Rate.Burst))
	b.setValue(a.windows, String(c.To.Rate.Windows().String()))
	if c.Kind != KeepLimit {
		b.setValue(a.window, Number(c.Window.Ordinal()))
	}
}

// moveWindow adds to the statement the condition that a quota is in the seen window. If window differs, the
// update moves the quota to it.
func (b *statementBuilder) moveWindow(a limitAttrs, seen, window int64) {
	b.requireCompare(a.window, "=", Number(seen))
	if window != seen {
		b.setValue(a.window, Number(window))
	}
}

// addSlotMoves adds to a claim the slot changes of a limit of calls in flight that stays, with their
// conditions. If To is set, it adds the new burst too.
func (c *Change) addSlotMoves(b *statementBuilder, a limitAttrs) {
	c.slotsText(b, a, b.placeholders(c.slotsOperands(nil)))
	if c.To != nil {
		b.setValue(a.burst, Number(c.To.Rate.Burst))
	}
}

// placeholders returns a function for slotsText: each call adds the next number of list as a value to b and
// returns its placeholder.
func (b *statementBuilder) placeholders(list []operand) func() string {
	return func() string {
		p := b.value(Number(list[0].number))
		list = list[1:]
		return p
	}
}
