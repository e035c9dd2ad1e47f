package dialect

import "strings"

// fast is a mode of service without a known price, unless the operator gives one.
const fast = "fast"

// mergePlace returns the place or speed of a call after one more value, is, in lower case; was is the one so
// far. A value without a price of its own, such as "global", changes nothing, and "fast" stays.
func mergePlace(was, is string) string {
	switch is = strings.ToLower(is); is {
	case "", "standard", "global", "auto", "not_available":
		return was
	}
	if was == fast {
		return was
	}
	return is
}

// tierAt returns the name under which prices have a call's tier at a place. It is the tier, or the place if the
// tier is the standard one or the place is "fast". Any other pair is joined by a blank, which has no known
// price.
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

// mergeTier returns the tier of a call after one more value, in lower case: was is the one so far, is the new
// value. "" and "unspecified" change nothing. Two different tiers are joined by a blank, which has no known
// price.
func mergeTier(was, is string) string {
	is = strings.ToLower(is)
	switch {
	case is == "unspecified" || is == "", is == "auto" && was != "":
		return was
	case was == "" || was == "auto" || was == is:
		return is
	}
	return was + " " + is
}

// trafficTier returns the tier of a kind of Vertex traffic, "" if unspecified. Traffic paid in advance counts
// as standard.
func trafficTier(kind string) string {
	switch kind {
	case "TRAFFIC_TYPE_UNSPECIFIED":
		return ""
	case "ON_DEMAND", "PROVISIONED_THROUGHPUT":
		return "standard"
	}
	return strings.ToLower(strings.TrimPrefix(kind, "ON_DEMAND_"))
}
