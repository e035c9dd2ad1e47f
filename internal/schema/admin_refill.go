package schema

// RefillLimit is what a Refill does to one limit.
type RefillLimit struct {
	// Index is the limit's place in the image's set.
	Index int
	// Full makes the limit full; else Add is added to its tokens.
	Full bool
	Add  int64
	// Leave changes nothing of a limit that holds more than its burst, and requires that it still
	// holds no less.
	Leave bool
	// Grant adds Add to a quota within its window, above what it allows too. If Window is a
	// later one than the quota was seen in, it is opened, with Put tokens. AtMost requires that
	// it holds no more than it was seen to.
	Grant, AtMost bool
	Window        int64
	Put           int64
}

// Refill is the write by which an administrator fills a bucket. It moves no refill
// instant and no counter, and is right on every state: tokens at the burst are a full
// limit whatever has been refilled, and what is added is like a give-back, which commutes
// with every other write.
type Refill struct {
	Seen *Image
	// Untouched requires the limits to be as they were seen. Without it takes may land
	// in between: what is known of the limits before and after is of the look.
	Untouched bool
	Limits    []RefillLimit
}

// Statement returns the conditional update.
func (r *Refill) Statement() Statement {
	b := newStatementBuilder()
	b.exists(PK)
	b.incarnation(r.Seen.Incarnation)
	if r.Untouched {
		r.stillRefilled(b)
	}
	for _, l := range r.Limits {
		r.write(b, l)
	}
	return b.build()
}

func (r *Refill) stillRefilled(b *statementBuilder) {
	if r.Seen.HasRefilled {
		b.compare(attrRefilled, "=", Number(r.Seen.Refilled))
	} else {
		b.absent(attrRefilled)
	}
}

func (r *Refill) write(b *statementBuilder, l RefillLimit) {
	a, seen := r.Seen.Set.attrs[l.Index], &r.Seen.Limits[l.Index]
	b.compare(a.burst, "=", Number(seen.Burst))
	if l.Leave {
		b.compare(a.tokens, ">=", Number(seen.Burst))
		return
	}
	if l.Grant {
		b.inWindow(a, int64(seen.Window), l.Window)
		if l.Window != int64(seen.Window) || r.Untouched {
			b.compare(a.tokens, "=", Number(seen.Tokens))
		} else if l.AtMost {
			b.compare(a.tokens, "<=", Number(seen.Tokens))
		}
		if l.Window != int64(seen.Window) {
			b.setValue(a.tokens, Number(l.Put))
		} else {
			b.addNumber(a.tokens, l.Add)
		}
		return
	}
	switch {
	case r.Untouched:
		b.compare(a.tokens, "=", Number(seen.Tokens))
	case !l.Full: // fuller than full needs nothing, and repeated additions stay small
		b.compare(a.tokens, "<=", Number(seen.Burst))
	}
	if l.Full {
		b.setValue(a.tokens, Number(seen.Burst))
	} else {
		b.addNumber(a.tokens, l.Add)
	}
}
