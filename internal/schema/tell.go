package schema

import "github.com/dynalimit/dynalimit/internal/bucket"

// TellLimit is what a Tell does to one limit.
type TellLimit struct {
	// Name is the limit's.
	Name string
	// Count is added to the counter alone, and may be below 0. Back is returned to the
	// tokens and taken off the counter. Take is the part of Count that a quota is charged.
	Count, Back, Take int64
	// Passed is the change of the part of the counter that a level above counts too.
	Passed int64
	// Quota means that it is one, and Window is the one from which Back was taken; of Take alone
	// its ordinal counts.
	Quota  bool
	Window bucket.WindowID
	// Opens means that Window is a later one than the quota was seen in: it is opened, with Put
	// tokens, which Take is taken from.
	Opens bool
	Seen  Stored
	Put   int64
}

// Tell is the write that tells a bucket what was counted without it, and gives back what it
// could not be given before. It needs no image and commutes with every other write. It is
// written beside the bucket's lane, so it leaves the op slots alone, and it is sent once:
// nothing would recognise it. It requires that the limits exist; if it gives back, also that
// the bucket is the incarnation that was taken from.
type Tell struct {
	Incarnation []byte
	// Backs means that something is given back to that incarnation, or comes off its counter.
	Backs  bool
	Limits []TellLimit
}

// Statement returns the conditional update.
func (t *Tell) Statement() Statement {
	b := newStatementBuilder()
	for _, l := range t.Limits {
		a := attrsOf(l.Name, l.Quota)
		l.tokens(b, a)
		b.addNumber(a.consumed, l.Count-l.Back)
		b.addPassed(a, l.Passed)
		b.exists(a.burst)
	}
	if t.Backs {
		b.incarnation(t.Incarnation)
	}
	return b.build()
}

// tokens writes what becomes of a limit's tokens.
func (l *TellLimit) tokens(b *statementBuilder, a limitAttrs) {
	if l.Opens {
		b.inWindow(a, int64(l.Seen.Window), l.Window.Ordinal())
		b.compare(a.burst, "=", Number(l.Seen.Burst))
		b.compare(a.tokens, "=", Number(l.Seen.Tokens))
		b.setValue(a.tokens, Number(l.Put))
		return
	}
	if moved := l.Back - l.Take; moved != 0 {
		b.addNumber(a.tokens, moved)
	}
	switch {
	case l.Back > 0:
		b.takenIn(a, l.Window)
	case l.Quota && l.Take > 0:
		b.compare(a.window, "=", Number(l.Window.Ordinal()))
	}
	if l.Take > 0 {
		b.compare(a.tokens, ">=", Number(l.Take))
	}
}
