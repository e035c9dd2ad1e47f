package schema

// GiveBack is the write that only gives tokens back. It needs no image and commutes with every other write.
// It requires the limits to exist in the incarnation from which the tokens were taken, and its op rule makes
// it land at most once.
type GiveBack struct {
	Incarnation []byte
	Limits      []Change
	Op          Op
}

// Statement returns the conditional update. It fails to apply if a limit is missing, the bucket is another
// incarnation, or the op rule does not hold.
func (g *GiveBack) Statement() Statement {
	b := newStatementBuilder()
	b.op(g.Op)
	b.incarnation(g.Incarnation)
	for i := range g.Limits {
		g.Limits[i].add(b, nil)
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
		t.Limits[i].add(b, t.Seen)
	}
	if t.Backs {
		b.incarnation(t.Incarnation)
	}
	return b.build()
}

// add adds a limit's part to a GiveBack or Tell: tokens and counters, and the conditions on window, life and
// least tokens. A Full change opens a window after that of the limit in seen.
func (c *Change) add(b *statementBuilder, seen *Image) {
	a := attrsOf(c.Name, c.Quota)
	switch {
	case c.Full:
		was := &seen.Limits[c.Place]
		b.inWindow(a, int64(was.Window), c.Window.Ordinal())
		b.compare(a.burst, "=", Number(was.Burst))
		b.compare(a.tokens, "=", Number(was.Tokens))
		b.setValue(a.tokens, Number(c.Put))
	case c.Add != 0:
		b.addNumber(a.tokens, c.Add)
	}
	if c.Quota && (c.SameLife || c.HasLow) {
		b.compare(a.window, "=", Number(c.Window.Ordinal()))
	}
	if c.SameLife {
		b.inLife(a, c.Window.Life())
	}
	if c.HasLow {
		b.compare(a.tokens, ">=", Number(c.Low))
	}
	b.addNumber(a.consumed, c.Consumed)
	if c.Passed != 0 { // else a bucket without a level above would get the attribute
		b.addNumber(a.passed, c.Passed)
	}
	b.exists(a.burst)
}
