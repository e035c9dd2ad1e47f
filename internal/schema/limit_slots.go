package schema

import (
	"fmt"
	"time"
)

// The bounds of a hold and of the longest time of a lease.
const (
	leastHold    = 30 * time.Second
	mostHold     = 24 * time.Hour
	mostLongest  = 7 * 24 * time.Hour
	usualLongest = time.Hour
	mostSlots    = 1_000_000
)

// IsSlots reports whether the limit is one of calls in flight.
func (l ConfigLimit) IsSlots() bool { return l.Hold != 0 }

// checkSlots returns the first invalid field of a limit of calls in flight, and the reason; both are "" for a
// valid limit.
func (l ConfigLimit) checkSlots() (field, reason string) {
	switch {
	case l.Capacity > mostSlots:
		return "Capacity", fmt.Sprintf("is %d for %q; give 1 to %d calls in flight", l.Capacity, l.Name, mostSlots)
	case l.Hold < leastHold || l.Hold > mostHold || l.Hold%time.Second != 0:
		return "Hold", fmt.Sprintf("is %v for %q; give whole seconds from %v to %v", l.Hold, l.Name, leastHold, mostHold)
	case l.Longest < l.Hold || l.Longest > mostLongest || l.Longest%time.Second != 0:
		return "Longest", fmt.Sprintf("is %v for %q; give whole seconds from its hold (%v) to %v", l.Longest, l.Name, l.Hold, mostLongest)
	case l.RefillPeriod != 0:
		return "RefillPeriod", fmt.Sprintf("is %v for %q, which limits calls in flight; leave it out", l.RefillPeriod, l.Name)
	case l.Window != "":
		return "Window", fmt.Sprintf("is %q for %q, which limits calls in flight; leave it out", l.Window, l.Name)
	case l.Zone != "":
		return "Zone", fmt.Sprintf("is %q for %q, which limits calls in flight; leave it out", l.Zone, l.Name)
	case l.Unit != "":
		return "Unit", fmt.Sprintf("is %q for %q, which limits calls in flight; leave it out", l.Unit, l.Name)
	case l.Burst != l.Capacity:
		return "Burst", fmt.Sprintf("is %d for %q; a limit of calls in flight has no burst but its capacity (%d)", l.Burst, l.Name, l.Capacity)
	case l.RefillAmount != l.Capacity:
		return "RefillAmount", fmt.Sprintf("is %d for %q, which limits calls in flight; leave it out", l.RefillAmount, l.Name)
	case l.MaxDebt != 0:
		return "MaxDebt", fmt.Sprintf("is %d for %q, which limits calls in flight; leave it out", l.MaxDebt, l.Name)
	}
	return "", ""
}
