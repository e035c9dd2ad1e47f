package schema

// LeaveNote returns the update that replaces the note of waiters that was seen, nil for none. It makes no bucket.
func LeaveNote(n, seen *Note) Statement {
	b := newStatementBuilder()
	b.setValue(attrWaiterNote, Bytes(n.Bytes()))
	b.exists(attrRefilled)
	if seen == nil {
		b.absent(attrWaiterNote)
	} else {
		b.compare(attrWaiterNote, "=", Bytes(seen.Bytes()))
	}
	return b.build()
}
