package ledger

// An operation whose item is there already was written before, by an earlier try of
// its own or by another who used its id: then it is a duplicate, and changes nothing.

// refused takes in what one of the operation's own items says, and reports whether the
// operation is finished. over is what another of its items said.
func (o *Operation) refused(kind itemKind, r refusal, over bool) bool {
	switch kind {
	case putDedup:
		o.Verdict.Stored = r.stored
		o.Verdict.Duplicate = r.stored.writer != o.writer
		o.Verdict.Conflict = o.Verdict.Duplicate && r.stored.Hash != o.record.Hash
		if o.holdUnneeded() {
			o.releaseOnly()
			return false
		}
		return true
	case putHold: // under an id of our own: an earlier try landed
		return true
	case putName:
		o.named(r.named)
		return true
	case putAudit:
		o.Verdict.Adjusted = r.adjusted
		o.Verdict.Duplicate = r.adjusted.writer != o.writer
		o.Verdict.Conflict = o.Verdict.Duplicate && !o.adjust.repeats(r.adjusted)
		return true
	case deleteHold:
		if o.keysGone++; o.kind == opRelease && o.holdGone() {
			o.debits = nil
			return !o.barsID
		}
	case barHold:
		return o.barred(r.hold)
	}
	return over
}

// named takes in what is kept under the id of a reservation; of its own, an earlier try
// landed.
func (o *Operation) named(n *Name) {
	if n.writer != o.writer {
		o.Verdict.Duplicate, o.Verdict.Named = true, n
	}
}

// barred takes in what is in the place of a hold whose id is to be barred: an earlier try
// of that landed, or the hold has come.
func (o *Operation) barred(h *Hold) (over bool) {
	if h.Estimate.IsZero() {
		return true
	}
	o.keysGone, o.debits = 0, o.Hold.Debits
	return false
}
