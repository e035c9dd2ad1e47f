package dialect

import "strings"

// fast is a way to be served that no price is known for unless the operator gives one.
const fast = "fast"

// placeOf is where, or how fast, a call is served if that has a price of its own, such as "us" and
// "fast"; was is what was said before.
func placeOf(was, is string) string {
	switch is = strings.ToLower(is); is {
	case "", "standard", "global", "auto", "not_available":
		return was
	}
	if was == fast {
		return was
	}
	return is
}

// tierAt is the tier by which a call at a place is priced: the place's, if the tier is the standard
// one. Both together have no price that is known.
func tierAt(tier, place string) string {
	switch tier {
	case "", "auto", "standard", "standard_only", "default":
		if place != "" {
			return place
		}
		return tier
	}
	switch place {
	case "":
		return tier
	case fast:
		return place
	}
	return tier + " " + place
}

// tierOf is the tier that is named; was is what was said before. Two of one call have no price that is
// known.
func tierOf(was, is string) string {
	is = strings.ToLower(is)
	switch {
	case is == "unspecified" || is == "", is == "auto" && was != "":
		return was
	case was == "" || was == "auto" || was == is:
		return is
	}
	return was + " " + is
}

// trafficTier is the tier of a kind of Vertex' traffic: what is paid for in advance is charged as what
// is not.
func trafficTier(kind string) string {
	switch kind {
	case "TRAFFIC_TYPE_UNSPECIFIED":
		return ""
	case "ON_DEMAND", "PROVISIONED_THROUGHPUT":
		return "standard"
	}
	return strings.ToLower(strings.TrimPrefix(kind, "ON_DEMAND_"))
}
