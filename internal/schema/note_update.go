package schema

// LeaveNote returns the update that replaces the note of a class of waiters that was seen, nil for none. It makes no
// bucket.
func LeaveNote(n, seen *Note, batch bool) Statement {
	attr := noteAttr(batch)
	b := newStatementBuilder()
	b.setValue(attr, Bytes(n.Bytes()))
	b.exists(attrRefilled)
	if seen == nil {
		b.absent(attr)
	} else {
		b.compare(attr, "=", Bytes(seen.Bytes()))
	}
	return b.build()
}
