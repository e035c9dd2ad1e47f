package dialect

// fast is a way to be served that no price is known for unless the operator gives one.
const fast = "fast"

// placeOf is where, or how fast, a call is served if that has a price of its own, such as "us" and
// "fast"; was is what was said before.
func placeOf(was, is string) string {
	switch is {
	case "", "standard", "global", "auto", "not_available":
		return was
	}
	if was == fast {
		return was
	}
	return is
}

// tierAt is the tier by which a call at a place is priced: the place's, if the tier is the standard
// one. Empty: the dearest.
func tierAt(tier, place string) string {
	switch {
	case place == "":
		return tier
	case place == fast, tier == "standard", tier == "standard_only", tier == "default":
		return place
	}
	return ""
}
