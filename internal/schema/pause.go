package schema

// PauseUntil is the update that makes an instant, in Unix ms, until which nothing is taken from a
// bucket a later one. It makes no bucket.
func PauseUntil(until int64) Statement {
	b := newStatementBuilder()
	at := b.value(Number(until))
	b.set = append(b.set, b.name(attrPause)+" = "+at)
	b.exists(attrRefilled)
	b.require("(attribute_not_exists(" + b.name(attrPause) + ") OR " + b.name(attrPause) + " < " + at + ")")
	return b.build()
}
