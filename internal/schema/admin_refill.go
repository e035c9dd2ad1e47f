package schema

// RefillLimit is the change of one limit by a Refill.
type RefillLimit struct {
	// Index is the position of the limit in the image's set.
	Index int
	// Full makes the limit full. Otherwise Add is added to its tokens.
	Full bool
	Add  int64
	// Leave changes nothing of a limit above its burst. It requires that the limit still has at least its
	// burst.
	Leave bool
	// Grant adds Add to a quota within its window, even above its allowance. If Window is later than the seen
	// one, the write opens it with Put tokens. AtMost requires that the limit has no more tokens than in the
	// image.
	Grant, AtMost bool
	Window        int64
	Put           int64
}

// Refill is the write by which an administrator fills a bucket. It moves neither the refill instant nor a
// counter, and is right on every state. Tokens at the burst mean a full limit at any refill instant, and an
// addition commutes with every other write, like a give-back.
type Refill struct {
	Seen *Image
	// Untouched requires the limits to be as in the image. Without it takes may land in between, and the
	// values before and after are those of the image.
	Untouched bool
	Limits    []RefillLimit
}

// Statement returns the update that changes the tokens of the limits. It requires the incarnation, bursts and
// windows to be as in the image, and with Untouched also the tokens and the refill instant. A limit to Leave
// only adds a condition.
func (r *Refill) Statement() Statement {
	b := newStatementBuilder()
	b.requireExists(PK)
	b.requireIncarnation(r.Seen.Incarnation)
	if r.Untouched {
		r.requireRefilled(b)
	}
	for _, l := range r.Limits {
		r.addLimit(b, l)
	}
	return b.build()
}

// requireRefilled adds to the statement the condition that the refill instant, or its absence, is as in the
// image.
func (r *Refill) requireRefilled(b *statementBuilder) {
	if r.Seen.HasRefilled {
		b.requireCompare(attrRefilled, "=", Number(r.Seen.Refilled))
	} else {
		b.requireAbsent(attrRefilled)
	}
}

// addLimit adds the change of one limit to the statement, with the conditions under which its values are right;
// with Leave only the condition. For a quota with alerts it also records the grant.
func (r *Refill) addLimit(b *statementBuilder, l RefillLimit) {
	a, seen := r.Seen.Set.attrs[l.Index], &r.Seen.Limits[l.Index]
	b.requireCompare(a.burst, "=", Number(seen.Burst))
	if l.Leave {
		b.requireCompare(a.tokens, ">=", Number(seen.Burst))
		return
	}
	if l.Grant {
		b.moveWindow(a, int64(seen.Window), l.Window)
		if l.Window != int64(seen.Window) || r.Untouched {
			b.requireCompare(a.tokens, "=", Number(seen.Tokens))
		} else if l.AtMost {
			b.requireCompare(a.tokens, "<=", Number(seen.Tokens))
		}
		if l.Window != int64(seen.Window) {
			b.setValue(a.tokens, Number(l.Put))
		} else {
			b.addNumber(a.tokens, l.Add)
		}
		r.Seen.noteGranted(b, r.Seen.Set.Names[l.Index], l.Window, l.Add)
		return
	}
	switch {
	case r.Untouched:
		b.requireCompare(a.tokens, "=", Number(seen.Tokens))
	case !l.Full: // a limit above full needs nothing, so repeated additions stay small
		b.requireCompare(a.tokens, "<=", Number(seen.Burst))
	}
	if l.Full {
		b.setValue(a.tokens, Number(seen.Burst))
		if seen.IsQuota() {
			r.Seen.noteGranted(b, r.Seen.Set.Names[l.Index], int64(seen.Window), seen.Burst-seen.Tokens)
		}
	} else {
		b.addNumber(a.tokens, l.Add)
	}
}
