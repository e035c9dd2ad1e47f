package schema

// PauseUntil returns the update that pauses a bucket until an instant, in Unix ms. It fails to apply if the
// bucket does not exist, or if a stored pause ends at or after until. A stored pause beyond latest came from a
// wrong clock, and is replaced.
func PauseUntil(until, latest int64) Statement {
	b := newStatementBuilder()
	at := b.value(Number(until))
	b.set = append(b.set, b.name(attrPause)+" = "+at)
	b.requireExists(attrRefilled)
	b.require("(attribute_not_exists(" + b.name(attrPause) + ") OR " + b.name(attrPause) + " < " + at + " OR " + b.name(attrPause) + " > " + b.value(Number(latest)) + ")")
	return b.build()
}

// LiftPause returns the update that ends a bucket's pause. It fails to apply if the bucket does not exist.
func LiftPause() Statement {
	b := newStatementBuilder()
	b.setValue(attrPause, Number(0))
	b.requireExists(attrRefilled)
	return b.build()
}
