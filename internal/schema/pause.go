package schema

// PauseUntil is the update that makes an instant, in Unix ms, until which nothing is taken from a
// bucket a later one. One beyond latest was written by a wrong clock, and is replaced. It makes no
// bucket.
func PauseUntil(until, latest int64) Statement {
	b := newStatementBuilder()
	at := b.value(Number(until))
	b.set = append(b.set, b.name(attrPause)+" = "+at)
	b.exists(attrRefilled)
	b.require("(attribute_not_exists(" + b.name(attrPause) + ") OR " + b.name(attrPause) + " < " + at + " OR " + b.name(attrPause) + " > " + b.value(Number(latest)) + ")")
	return b.build()
}

// LiftPause is the update that ends a bucket's pause. It makes no bucket.
func LiftPause() Statement {
	b := newStatementBuilder()
	b.setValue(attrPause, Number(0))
	b.exists(attrRefilled)
	return b.build()
}
