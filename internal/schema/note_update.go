package schema

// LeaveNote returns the update that writes n as the note of a class of waiters. It fails to apply unless the
// bucket exists and still has the seen note; seen is nil if there was none.
func LeaveNote(n, seen *Note, batch bool) Statement {
	attr := noteAttr(batch)
	b := newStatementBuilder()
	b.setValue(attr, Bytes(n.Bytes()))
	b.requireExists(attrRefilled)
	if seen == nil {
		b.requireAbsent(attr)
	} else {
		b.requireCompare(attr, "=", Bytes(seen.Bytes()))
	}
	return b.build()
}
