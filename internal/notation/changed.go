package notation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit"
)

// ParseChanged parses a limit as ParseLimit does. Parts that the text omits come from the limit in force; the
// zero limit means that none is in force. A text with a period or a window defines a limit of its own.
func ParseChanged(text string, inForce dynalimit.Limit) (dynalimit.Limit, error) {
	return parseReserved(text, func(text string) (dynalimit.Limit, error) { return changedWithoutReserve(text, inForce) })
}

// changedWithoutReserve parses a changed limit from a text without a reserve. Omitted parts, and the reserve,
// come from the limit in force, unless the text defines a limit of its own. A limit of money must be changed in
// dollars.
func changedWithoutReserve(text string, inForce dynalimit.Limit) (dynalimit.Limit, error) {
	name, rest, _ := strings.Cut(text, "=")
	capacity, more, _ := strings.Cut(rest, ",")
	if inForce.Name == "" || strings.Contains(capacity, "/") {
		return ParseLimit(text)
	}
	if inForce.IsQuota() {
		if inForce.Unit != "" && !strings.HasPrefix(capacity, "$") {
			return dynalimit.Limit{}, fmt.Errorf("%s: %s is money: write dollars, such as %s=$%s", text, name, name, capacity)
		}
		for word, window := range windows {
			if window == inForce.Window {
				capacity += "/" + word
			}
		}
	}
	if inForce.IsConcurrent() {
		return changedConcurrent(name+"="+capacity+"/"+concurrent, more, inForce)
	}
	l, err := ParseLimit(strings.TrimSuffix(name+"="+capacity+","+more, ","))
	if err != nil {
		return l, err
	}
	l.Shadow, l.PerModel, l.MaxDebt, l.Reserve = l.Shadow || inForce.Shadow, l.PerModel || inForce.PerModel, cmp.Or(l.MaxDebt, inForce.MaxDebt), inForce.Reserve
	if l.IsQuota() {
		l.AlertAt = cmp.Or(l.AlertAt, inForce.AlertAt)
		if !slices.ContainsFunc(strings.Split(more, ","), func(part string) bool { return strings.HasPrefix(part, "zone=") }) {
			l.Zone = inForce.Zone
		}
		return l, nil
	}
	l.RefillPeriod = inForce.RefillPeriod
	if l.Burst == 0 && inForce.Burst != inForce.Capacity {
		l.Burst = max(inForce.Burst, l.Capacity)
	}
	if l.RefillAmount == 0 && inForce.RefillAmount != inForce.Capacity {
		l.RefillAmount = inForce.RefillAmount
	}
	return l, nil
}

// changedConcurrent parses a changed limit of calls in flight: text is its name and number, and more are the
// other parts. Omitted parts come from the limit in force.
func changedConcurrent(text, more string, inForce dynalimit.Limit) (dynalimit.Limit, error) {
	given := func(key string) bool {
		return slices.ContainsFunc(strings.Split(more, ","), func(part string) bool { return strings.HasPrefix(part, key+"=") })
	}
	l, err := ParseLimit(strings.TrimSuffix(text+","+more, ","))
	if err != nil {
		return l, err
	}
	l.Reserve = inForce.Reserve
	if l.Shadow = l.Shadow || inForce.Shadow; !given("hold") {
		l.Hold = inForce.Hold
	}
	if !given("longest") {
		l.Longest = inForce.Longest
	}
	return l, nil
}
