package schema

// text builds the text of a spend. Its placeholders are in the order in which encode returns the values.
func (s *Spend) text() *statementText {
	b := newStatementBuilder()
	text := &statementText{}
	take := func() string {
		p := b.value(nil)
		text.places = append(text.places, p)
		return p
	}
	slot := b.name(opAttrs[s.Op.Slot])
	b.set = append(b.set, slot+" = "+take())
	for _, n := range s.Notes {
		b.set = append(b.set, b.name(noteAttr(n.Batch))+" = "+take())
	}
	switch s.Op.Rule {
	case OpLast:
		b.require(slot + " = " + take())
	case OpNotMine:
		b.require("(attribute_not_exists(" + slot + ") OR NOT begins_with(" + slot + ", " + take() + "))")
	case OpAny:
	}
	compare := " = "
	if s.LaterRefill {
		compare = " >= "
	}
	b.require(b.name(attrRefilled) + compare + take())
	b.require(b.name(attrFingerprint) + " = " + take())
	switch {
	case s.Backs && s.Seen.Incarnation != nil:
		b.require(b.name(attrIncarnation) + " = " + take())
	case s.Backs:
		b.requireAbsent(attrIncarnation)
	}
	if s.TTL > 0 {
		ttl := b.name(TTL)
		b.require("(attribute_not_exists(" + ttl + ") OR " + ttl + " >= " + take() + ")")
	}
	for i := range s.Limits {
		c := &s.Limits[i]
		a := s.Seen.Set.attrs[c.Place]
		switch {
		case !c.SameLife:
		case s.Seen.Limits[c.Place].Life == 0:
			b.requireAbsent(a.life)
		default:
			b.require(b.name(a.life) + " = " + take())
		}
		c.addText(b, a, take)
	}
	st := b.build()
	text.update, text.condition, text.names = st.Update, st.Condition, st.Names
	return text
}

// addText adds one limit's changes and conditions to the text of a spend, by its kind: token bucket, quota or
// slots. It calls take for the placeholder of each value, in the order of Spend.encode.
func (c *Change) addText(b *statementBuilder, a limitAttrs, take func() string) {
	if c.Quota {
		c.quotaText(b, a, take)
		return
	}
	if c.Slots != nil {
		c.slotsText(b, a, take)
		return
	}
	tokens := b.name(a.tokens)
	b.requireExists(a.burst)
	if c.Full {
		b.set = append(b.set, tokens+" = "+take())
		b.add = append(b.add, b.name(a.consumed)+" "+take())
		c.passedText(b, a, take)
		b.require(tokens + " >= " + take())
		return
	}
	b.add = append(b.add, tokens+" "+take(), b.name(a.consumed)+" "+take())
	c.passedText(b, a, take)
	if c.HasLow {
		b.require(tokens + " BETWEEN " + take() + " AND " + take())
	} else {
		b.require(tokens + " <= " + take())
	}
}

// passedText adds an ADD of the attribute passed to the text of a spend, unless Passed is 0.
func (c *Change) passedText(b *statementBuilder, a limitAttrs, take func() string) {
	if c.Passed != 0 {
		b.add = append(b.add, b.name(a.passed)+" "+take())
	}
}

// quotaText adds a quota's part to the text of a spend: the changes of its tokens and counters, and the
// conditions on its window and least tokens.
func (c *Change) quotaText(b *statementBuilder, a limitAttrs, take func() string) {
	b.requireExists(a.burst)
	b.add = append(b.add, b.name(a.tokens)+" "+take(), b.name(a.consumed)+" "+take())
	c.passedText(b, a, take)
	b.require(b.name(a.window) + " = " + take())
	if c.HasLow {
		b.require(b.name(a.tokens) + " >= " + take())
	}
}

// slotsText adds the part of a limit of calls in flight to the text of a spend or claim. It changes the free
// slots, with their lower bound, and the epochs, and removes past epochs.
func (c *Change) slotsText(b *statementBuilder, a limitAttrs, take func() string) {
	b.requireExists(a.burst)
	tokens := b.name(a.tokens)
	b.add = append(b.add, tokens+" "+take())
	if c.HasLow {
		b.require(tokens + " >= " + take())
	}
	for _, e := range c.Slots.Changes() {
		h := b.name(a.epoch(e.End))
		if e.Least > 0 {
			b.require(h + " >= " + take())
		}
		if e.Add != 0 {
			b.add = append(b.add, h+" "+take())
		}
	}
	for _, e := range c.Slots.Past {
		h := b.name(a.epoch(e.End))
		b.require(h + " = " + take())
		b.remove = append(b.remove, h)
	}
}
