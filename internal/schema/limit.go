package schema

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// ConfigLimit is a limit in whole tokens, in the form of users and of the table: a token bucket, with a
// Window a calendar quota, or with a Hold a limit of calls in flight. dynalimit.Limit describes its fields.
// Each is converted into the other, so both have the same fields.
type ConfigLimit struct {
	Name                          string
	Capacity, Burst, RefillAmount int64
	RefillPeriod                  time.Duration
	Window, Zone, Unit            string
	PerModel, Shadow              bool
	MaxDebt, Reserve              int64
	Hold, Longest                 time.Duration
	AlertAt                       Percentages
}

// A limit with the Reserve noReserve keeps nothing from batch calls. The largest reserve is 1/mostReserve of the burst.
const (
	noReserve   = -1
	mostReserve = 2
)

// LongestPeriod bounds a refill period: longer than any billing cycle.
const LongestPeriod = 366 * 24 * time.Hour

// PeriodSeconds returns the refill period in whole seconds, as stored.
func (l ConfigLimit) PeriodSeconds() int64 { return int64(l.RefillPeriod / time.Second) }

// seconds returns n seconds as a Duration. It cuts n to the longest Duration, a period that CheckLimits
// refuses.
func seconds(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Second)
	return time.Duration(min(max(n, -most), most)) * time.Second
}

// IsQuota reports whether the limit is a calendar quota, not a token bucket.
func (l ConfigLimit) IsQuota() bool { return l.Window != "" }

// WithDefaults returns the limit with defaults in unset fields. Burst and refill amount become the capacity, a
// quota's zone UTC, and Longest of slots an hour, or the hold if that is longer.
func (l ConfigLimit) WithDefaults() ConfigLimit {
	l.Burst, l.RefillAmount = cmp.Or(l.Burst, l.Capacity), cmp.Or(l.RefillAmount, l.Capacity)
	if l.IsQuota() {
		l.Zone = cmp.Or(l.Zone, "UTC")
	}
	if l.IsSlots() {
		l.Longest = cmp.Or(l.Longest, max(usualLongest, l.Hold))
	}
	return l
}

// CheckLimits returns the limits with their defaults, sorted by name. Of invalid limits it returns nil, the
// reason as a text, and in at the field as a suffix, such as "[1].Burst"; at is "" if the reason concerns the
// whole list.
func CheckLimits(limits []ConfigLimit) (checked []ConfigLimit, at, reason string) {
	if len(limits) == 0 {
		return nil, "", `is empty; give at least one limit, for example dynalimit.PerMinute("rpm", 100)`
	}
	if len(limits) > MaxLimits {
		return nil, "", fmt.Sprintf("has %d limits; a bucket holds at most %d", len(limits), MaxLimits)
	}
	checked = make([]ConfigLimit, len(limits))
	for i, l := range limits {
		checked[i] = l.WithDefaults()
		if field, reason := checked[i].findFault(); reason != "" {
			return nil, fmt.Sprintf("[%d].%s", i, field), reason
		}
	}
	slices.SortFunc(checked, func(a, b ConfigLimit) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(checked); i++ {
		if checked[i].Name == checked[i-1].Name {
			return nil, "", fmt.Sprintf("names %q twice; give each limit once", checked[i].Name)
		}
	}
	return checked, "", ""
}

// checkReserve returns the reason why the reserve is invalid; "" for a valid one.
func (l ConfigLimit) checkReserve() string {
	switch most := l.Burst / mostReserve; {
	case l.Reserve >= noReserve && l.Reserve <= most:
		return ""
	case most == 0:
		return fmt.Sprintf("is %d for %q; a limit of one can have no reserve: give 0 or -1", l.Reserve, l.Name)
	default:
		return fmt.Sprintf("is %d for %q; give 1 to %d tokens, half of what it holds, 0 for a fifth, or -1 for none", l.Reserve, l.Name, most)
	}
}

// findFault returns the first invalid field of a limit with its defaults, and the reason as a text; both are ""
// for a valid limit.
func (l ConfigLimit) findFault() (field, reason string) {
	if reason := LimitRule.Check(l.Name); reason != "" {
		return "Name", reason
	}
	if field, reason := l.checkAmounts(); reason != "" {
		return field, reason
	}
	switch {
	case l.checkAlerts() != "":
		return "AlertAt", l.checkAlerts()
	case l.checkReserve() != "":
		return "Reserve", l.checkReserve()
	case l.IsSlots():
		return l.checkSlots()
	case l.Longest != 0:
		return "Longest", fmt.Sprintf("is %v for %q, which does not limit calls in flight; set Hold, or leave it out", l.Longest, l.Name)
	case l.MaxDebt < 0 || l.MaxDebt > MaxTokens:
		return "MaxDebt", fmt.Sprintf("is %d for %q; give 1 to %d tokens, or 0 for any debt", l.MaxDebt, l.Name, int64(MaxTokens))
	case l.Unit != "" && l.Unit != money:
		return "Unit", fmt.Sprintf("is %q for %q; give dynalimit.USD for money, or nothing", l.Unit, l.Name)
	case l.PerModel && l.Unit == "":
		return "PerModel", fmt.Sprintf("is set for %q, which is no money; leave it out", l.Name)
	case l.IsQuota():
		return l.checkQuota()
	case l.Unit != "":
		return "Unit", fmt.Sprintf("is money for %q, which is a token bucket; give money in a quota, for example with dynalimit.DailyMoneyQuota", l.Name)
	case l.Zone != "":
		return "Zone", fmt.Sprintf("is %q for %q, which has no window; set Window, or leave the zone out", l.Zone, l.Name)
	case l.RefillPeriod < time.Millisecond || l.RefillPeriod > LongestPeriod || l.RefillPeriod%time.Millisecond != 0:
		return "RefillPeriod", fmt.Sprintf("is %v for %q; give whole milliseconds up to %v", l.RefillPeriod, l.Name, LongestPeriod)
	}
	return "", ""
}

// checkAmounts returns the first of Capacity, Burst and RefillAmount that is not from 1 to MaxTokens, and the
// reason; both are "" if all are.
func (l ConfigLimit) checkAmounts() (field, reason string) {
	for _, n := range []struct {
		name  string
		value int64
	}{{"Capacity", l.Capacity}, {"Burst", l.Burst}, {"RefillAmount", l.RefillAmount}} {
		if n.value < 1 || n.value > MaxTokens {
			return n.name, fmt.Sprintf("is %d for %q; give 1 to %d tokens", n.value, l.Name, int64(MaxTokens))
		}
	}
	return "", ""
}

// checkQuota returns the first invalid field of a calendar quota, and the reason; both are "" for a valid
// quota.
func (l ConfigLimit) checkQuota() (field, reason string) {
	switch {
	case l.RefillPeriod != 0:
		return "RefillPeriod", fmt.Sprintf("is %v for %q, which is a quota of each %s; leave it out", l.RefillPeriod, l.Name, l.Window)
	case l.Burst != l.Capacity:
		return "Burst", fmt.Sprintf("is %d for %q; a quota has no burst but its capacity (%d)", l.Burst, l.Name, l.Capacity)
	case l.RefillAmount != l.Capacity:
		return "RefillAmount", fmt.Sprintf("is %d for %q; a quota regains its capacity (%d)", l.RefillAmount, l.Name, l.Capacity)
	}
	if _, err := calendar.WindowsOf(l.Window, l.Zone); err != nil {
		return "Window", fmt.Sprintf("of %q: %v", l.Name, err)
	}
	return "", ""
}

// checkAlerts returns why AlertAt of a limit with its defaults is invalid, as a text, or "". Only a quota may
// have alerts.
func (l ConfigLimit) checkAlerts() string {
	switch {
	case l.AlertAt == 0:
	case !l.IsQuota():
		return fmt.Sprintf("is set for %q, which is not a quota; leave it out, or set Window", l.Name)
	case !l.AlertAt.isValid():
		return fmt.Sprintf("is unusable for %q; give at most %d percentages from 1 to %d", l.Name, mostPercentages, WholeQuota)
	}
	return ""
}
