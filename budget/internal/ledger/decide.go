package ledger

// refusal is a condition of a transaction that did not hold, with what the item contains
// instead.
type refusal struct {
	item     int
	stored   Stored // of a dedup item
	adjusted *Adjustment
}

// resolve decides about the operations of a refused transaction. An operation whose item
// is there already was written before, by an earlier try of its own or by another who used
// its id: then it is a duplicate, and is finished. The others are tried again. Every
// refusal finishes one operation, so the tries come to an end.
func (t *transaction) resolve(refused []refusal) (finished, again []*Operation) {
	over := map[*Operation]bool{}
	for _, r := range refused {
		o := t.items[r.item].op
		o.refused(r)
		over[o] = true
	}
	for _, o := range t.ops {
		if over[o] {
			finished = append(finished, o)
		} else {
			again = append(again, o)
		}
	}
	return finished, again
}

// refused takes in what the operation's own item says.
func (o *Operation) refused(r refusal) {
	v := &o.Verdict
	if o.adjust != nil {
		v.Adjusted, v.Duplicate = r.adjusted, r.adjusted.writer != o.writer
		v.Conflict = v.Duplicate && !o.adjust.repeats(r.adjusted)
		return
	}
	v.Stored, v.Duplicate = r.stored, r.stored.writer != o.writer
	v.Conflict = v.Duplicate && r.stored.Hash != o.record.Hash
}
