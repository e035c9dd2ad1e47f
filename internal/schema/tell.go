package schema

import "github.com/dynalimit/dynalimit/internal/bucket"

// TellLimit is the change of one limit by a Tell.
type TellLimit struct {
	// Name is the name of the limit.
	Name string
	// Count is added to the counter alone, and may be negative. Back is returned to the tokens and taken off
	// the counter. Take is the part of Count that a quota is charged.
	Count, Back, Take int64
	// Passed is the change of the part of the counter that a level above counts too.
	Passed int64
	// Quota means that the limit is a quota. Window is the window from which Back was taken; for Take only
	// its ordinal matters.
	Quota  bool
	Window bucket.WindowID
	// Opens means that Window is later than the seen one. The write opens it with Put tokens, from which Take
	// is already taken.
	Opens bool
	Seen  Stored
	Put   int64
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

// tokens writes the change of a limit's tokens.
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
