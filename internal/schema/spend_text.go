package schema

import "sync"

// maxSpendTexts bounds the texts cached by a registry. A service uses a few dozen; one of 20 limits takes 9
// KB.
const maxSpendTexts = 2048

// spendText is the text of a spend, built once for each shape.
type spendText struct {
	update, condition string
	names             map[string]string
	places            []string // value placeholders in the order of Statement
}

// textKey identifies the text of a spend.
type textKey struct {
	set   *LimitSet
	shape string
}

// spendTexts caches the texts of spends. When there are too many it drops all of them. Texts in use are built
// again.
type spendTexts struct {
	mu    sync.RWMutex
	known map[textKey]*spendText
}

// newSpendTexts returns an empty cache of texts.
func newSpendTexts() *spendTexts { return &spendTexts{known: map[textKey]*spendText{}} }

// textOf returns the text of a spend from the cache, or builds and adds it. The shape identifies it, with the
// set. If the cache is full, all texts are dropped.
func (t *spendTexts) textOf(s *Spend, shape []byte) *spendText {
	t.mu.RLock()
	text := t.known[textKey{s.Seen.Set, string(shape)}]
	t.mu.RUnlock()
	if text != nil {
		return text
	}
	text = s.text()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= maxSpendTexts {
		clear(t.known)
	}
	t.known[textKey{s.Seen.Set, string(shape)}] = text
	return text
}

// shape appends the parts of a spend that decide its text, apart from the set: the options of the write, then
// each limit with its form.
func (s *Spend) shape(b []byte) []byte {
	flag := func(set bool, bit byte) byte {
		if set {
			return bit
		}
		return 0
	}
	b = append(b, byte(s.Op.Slot), byte(s.Op.Rule), flag(s.LaterRefill, 1)|flag(s.TTL > 0, 2)|
		flag(s.Backs, 4)|flag(s.Backs && s.Seen.Incarnation != nil, 8))
	for i := range s.Limits {
		c := &s.Limits[i]
		b = append(b, byte(c.Place>>8), byte(c.Place), flag(c.HasLow, 1)|flag(c.Full, 2)|flag(c.Passed != 0, 4)|
			flag(c.SameLife, 8)|flag(s.Seen.Limits[c.Place].Life > 0, 16)) // an item of 400 KB has fewer than 2^16
	}
	return b
}

// text builds the text of a spend. Its placeholders are in the order in which operands returns the values.
func (s *Spend) text() *spendText {
	b := newStatementBuilder()
	text := &spendText{}
	take := func() string {
		p := b.value(nil)
		text.places = append(text.places, p)
		return p
	}
	slot := b.name(opAttrs[s.Op.Slot])
	b.set = append(b.set, slot+" = "+take())
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
		b.absent(attrIncarnation)
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
			b.absent(a.life)
		default:
			b.require(b.name(a.life) + " = " + take())
		}
		c.text(b, a, take)
	}
	st := b.build()
	text.update, text.condition, text.names = st.Update, st.Condition, st.Names
	return text
}

// text adds one limit's changes and conditions to the text of a spend. It calls take for the placeholder of
// each value, in the order of Spend.operands.
func (c *Change) text(b *statementBuilder, a limitAttrs, take func() string) {
	if c.Quota {
		c.quotaText(b, a, take)
		return
	}
	tokens := b.name(a.tokens)
	b.exists(a.burst)
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

// passedText adds the change of the passed counter, unless it is 0.
func (c *Change) passedText(b *statementBuilder, a limitAttrs, take func() string) {
	if c.Passed != 0 {
		b.add = append(b.add, b.name(a.passed)+" "+take())
	}
}

// quotaText adds a quota's part to the text of a spend: its window, and its least tokens.
func (c *Change) quotaText(b *statementBuilder, a limitAttrs, take func() string) {
	b.exists(a.burst)
	b.add = append(b.add, b.name(a.tokens)+" "+take(), b.name(a.consumed)+" "+take())
	c.passedText(b, a, take)
	b.require(b.name(a.window) + " = " + take())
	if c.HasLow {
		b.require(b.name(a.tokens) + " >= " + take())
	}
}
