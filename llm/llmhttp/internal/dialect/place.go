package dialect

import "strings"

// fast is a mode of service without a known price, unless the operator gives one.
const fast = "fast"

// placeOf is the place, or the speed, of a call if that has a price of its own, such as "us" and
// "fast"; was is the previous value.
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

// tierAt is the tier that prices a call at a place: the place's, if the tier is the standard
// one. Both together have no known price.
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

// tierOf is the named tier; was is the previous value. Two tiers of one call have no known
// price.
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

// trafficTier is the tier of a kind of Vertex' traffic. Traffic paid in advance is charged like
// the rest.
func trafficTier(kind string) string {
	switch kind {
	case "TRAFFIC_TYPE_UNSPECIFIED":
		return ""
	case "ON_DEMAND", "PROVISIONED_THROUGHPUT":
		return "standard"
	}
	return strings.ToLower(strings.TrimPrefix(kind, "ON_DEMAND_"))
}
