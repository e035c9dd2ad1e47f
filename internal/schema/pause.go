package schema

// PauseUntil returns the update that extends a bucket's pause until an instant, in Unix ms. A stored instant
// beyond latest came from a wrong clock, and is replaced. The update makes no bucket.
func PauseUntil(until, latest int64) Statement {
	b := newStatementBuilder()
	at := b.value(Number(until))
	b.set = append(b.set, b.name(attrPause)+" = "+at)
	b.exists(attrRefilled)
	b.require("(attribute_not_exists(" + b.name(attrPause) + ") OR " + b.name(attrPause) + " < " + at + " OR " + b.name(attrPause) + " > " + b.value(Number(latest)) + ")")
	return b.build()
}

// LiftPause returns the update that ends a bucket's pause. It makes no bucket.
func LiftPause() Statement {
	b := newStatementBuilder()
	b.setValue(attrPause, Number(0))
	b.exists(attrRefilled)
	return b.build()
}
