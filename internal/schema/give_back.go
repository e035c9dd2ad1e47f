package schema

import "strconv"

// GiveBack is the write that only gives tokens back. It needs no image, and commutes with every write that leaves its
// op slot alone. It requires the limits to exist in the incarnation from which the tokens were taken. Its op rule makes
// it land at most once, or it is not sent again after a try without an answer.
type GiveBack struct {
	Incarnation []byte
	// Set are the limits of the image in which the changes have their places; nil without an image.
	Set    *LimitSet
	Limits []Change
	Op     Op
}

// Statement returns the conditional update. It fails to apply if a limit is missing, the bucket is another
// incarnation, or the op rule does not hold. With a Set its text comes from a cache, and only the values are
// built.
func (g *GiveBack) Statement() Statement {
	if g.Set == nil {
		return g.buildStatement()
	}
	var shapeRoom [96]byte
	var room [32]operand
	shape, operands := g.encode(shapeRoom[:0], room[:0])
	return g.Set.texts.textOf(g.Set, shape, g).withValues(operands)
}

// encode appends to shape the properties that decide the text, apart from the set. Its first byte differs from that of
// every spend's shape, which is a slot. It appends the values to o, in the order in which buildStatement adds them. It
// returns both longer slices.
func (g *GiveBack) encode(shape []byte, o []operand) ([]byte, []operand) {
	flag := func(set bool, bit byte) byte {
		if set {
			return bit
		}
		return 0
	}
	shape = append(shape, 0xff, byte(g.Op.Slot), byte(g.Op.Rule), flag(g.Incarnation != nil, 1))
	o = append(o, operand{bytes: g.Op.ID})
	if g.Op.Rule != OpAny {
		o = append(o, operand{bytes: g.Op.Required})
	}
	if g.Incarnation != nil {
		o = append(o, operand{bytes: g.Incarnation})
	}
	for i := range g.Limits {
		c := &g.Limits[i]
		shape = append(shape, byte(c.Place>>8), byte(c.Place), flag(c.Add != 0, 1)|flag(c.Quota, 2)|flag(c.SameLife, 4)|
			flag(c.Window != 0 && c.Window.Life() != 0, 8)|flag(c.HasLow, 16)|flag(c.Passed != 0, 32))
		if c.Add != 0 {
			o = append(o, operand{number: c.Add})
		}
		if c.Quota && (c.SameLife || c.HasLow) {
			o = append(o, operand{number: c.Window.Ordinal()})
		}
		if c.SameLife && c.Window != 0 && c.Window.Life() != 0 {
			o = append(o, operand{number: int64(c.Window.Life())})
		}
		if c.HasLow {
			o = append(o, operand{number: c.Low})
		}
		o = append(o, operand{number: c.Consumed})
		if c.Passed != 0 {
			o = append(o, operand{number: c.Passed})
		}
	}
	return shape, o
}

// text returns the update, condition and names of a give-back for the cache, with placeholders in the place of
// its values.
func (g *GiveBack) text() *statementText {
	st := g.buildStatement()
	text := &statementText{update: st.Update, condition: st.Condition, names: st.Names}
	for range st.Values {
		text.places = append(text.places, ":"+strconv.Itoa(len(text.places)))
	}
	return text
}

// buildStatement builds the whole statement, text and values, without the cache of texts.
func (g *GiveBack) buildStatement() Statement {
	b := newStatementBuilder()
	b.recordOp(g.Op)
	b.requireIncarnation(g.Incarnation)
	for i := range g.Limits {
		g.Limits[i].addAmounts(b, nil)
	}
	return b.build()
}

// Tell is the write of a bucket's pending updates: usage counted without the bucket, and give-backs that
// could not be written before. It needs no image and commutes with every other write. It is not written by
// the bucket's lane, so it leaves the op slots unchanged. It is sent once, because a retry could not be
// recognised. It requires the limits to exist and, for a give-back, the bucket to be the incarnation of the
// take.
type Tell struct {
	Incarnation []byte
	// Backs means that tokens go back to that incarnation, or come off its counter.
	Backs  bool
	Limits []Change
	// Seen is the image that shows the window before the one that a change opens: one that is Full.
	Seen *Image
}

// Statement returns the conditional update. It fails to apply if a limit is missing or, with Backs, if the
// bucket is another incarnation.
func (t *Tell) Statement() Statement {
	b := newStatementBuilder()
	for i := range t.Limits {
		t.Limits[i].addAmounts(b, t.Seen)
	}
	if t.Backs {
		b.requireIncarnation(t.Incarnation)
	}
	return b.build()
}

// addAmounts adds a limit's part to a GiveBack or Tell: its tokens and counters. It requires that the limit
// exists, and adds the conditions on its window, life and least tokens. A Full change opens a window after that
// of the limit in seen.
func (c *Change) addAmounts(b *statementBuilder, seen *Image) {
	a := attrsOf(c.Name, c.Quota)
	switch {
	case c.Full:
		was := &seen.Limits[c.Place]
		b.moveWindow(a, int64(was.Window), c.Window.Ordinal())
		b.requireCompare(a.burst, "=", Number(was.Burst))
		b.requireCompare(a.tokens, "=", Number(was.Tokens))
		b.setValue(a.tokens, Number(c.Put))
	case c.Add != 0:
		b.addNumber(a.tokens, c.Add)
	}
	if c.Quota && (c.SameLife || c.HasLow) {
		b.requireCompare(a.window, "=", Number(c.Window.Ordinal()))
	}
	if c.SameLife {
		b.requireLife(a, c.Window.Life())
	}
	if c.HasLow {
		b.requireCompare(a.tokens, ">=", Number(c.Low))
	}
	b.addNumber(a.consumed, c.Consumed)
	if c.Passed != 0 { // else a bucket without a level above would get the attribute
		b.addNumber(a.passed, c.Passed)
	}
	b.requireExists(a.burst)
}
