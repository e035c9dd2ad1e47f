package manifest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// sameSource reports whether two configurations are equal, apart from manager, version and raises.
func sameSource(a, b admin.LimitConfig) bool { return len(sourceFields(a, b)) == 0 }

// sourceFields returns the fields that differ between two configurations, with both values as text, limits
// first. It ignores manager, version and raises, and is nil without a difference.
func sourceFields(from, to admin.LimitConfig) []Field {
	fields := limitFields(from.Limits, to.Limits)
	add := func(name, a, b string) {
		if a != b {
			fields = append(fields, Field{name, a, b})
		}
	}
	add("extends", boolText(from.Extends), boolText(to.Extends))
	add("lifted", strings.Join(from.Lifted, ", "), strings.Join(to.Lifted, ", "))
	add("unlimited", string(unlimitedOf(from)), string(unlimitedOf(to)))
	add("blocked", boolText(from.Blocked), boolText(to.Blocked))
	add("blocked_except", boolText(from.BlockedExcept), boolText(to.BlockedExcept))
	add("admit", boolText(from.Admit), boolText(to.Admit))
	add("on_unavailable", string(from.OnUnavailable), string(to.OnUnavailable))
	add("groups", strings.Join(from.Groups, ", "), strings.Join(to.Groups, ", "))
	return fields
}

// boolText returns "true", or "" for false, so that a default is not shown as a field.
func boolText(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// limitFields returns the added, removed and changed limits from from to to, as fields sorted by name. A
// changed limit has a field for each changed part.
func limitFields(from, to []dynalimit.Limit) (fields []Field) {
	was, is := byName(from), byName(to)
	names := map[string]bool{}
	for _, l := range append(slices.Clone(from), to...) {
		names[l.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, before := was[name]
		b, after := is[name]
		switch {
		case !before:
			fields = append(fields, Field{Name: name, To: notation.DescribeLimit(b)})
		case !after:
			fields = append(fields, Field{Name: name, From: notation.DescribeLimit(a)})
		default:
			fields = append(fields, limitDifference(name, a, b)...)
		}
	}
	return fields
}

// limitDifference returns the parts that differ between two limits named name, as fields such as
// "rpm.capacity". It ignores burst and refill if they equal the capacity on both sides.
func limitDifference(name string, a, b dynalimit.Limit) (fields []Field) {
	add := func(part, x, y string) {
		if x != y {
			fields = append(fields, Field{name + "." + part, x, y})
		}
	}
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	add("capacity", capacityText(a), capacityText(b))
	if a.Burst != a.Capacity || b.Burst != b.Capacity {
		add("burst", count(a.Burst), count(b.Burst))
	}
	if a.RefillAmount != a.Capacity || b.RefillAmount != b.Capacity {
		add("refill", count(a.RefillAmount), count(b.RefillAmount))
	}
	add("period", periodOf(a), periodOf(b))
	add("window", a.Window, b.Window)
	add("zone", a.Zone, b.Zone)
	add("unit", a.Unit, b.Unit)
	add("per_model", boolText(a.PerModel), boolText(b.PerModel))
	add("max_debt", count(a.MaxDebt), count(b.MaxDebt))
	add("reserve", notation.ReserveText(a), notation.ReserveText(b))
	add("hold", heldText(a.Hold), heldText(b.Hold))
	add("longest", heldText(a.Longest), heldText(b.Longest))
	add("alert_at", notation.PercentsText(a.AlertAt), notation.PercentsText(b.AlertAt))
	add("shadow", boolText(a.Shadow), boolText(b.Shadow))
	return fields
}

// capacityText formats a limit's capacity: dollars for money, else whole tokens or slots.
func capacityText(l dynalimit.Limit) string {
	if l.Unit == dynalimit.USD {
		return notation.RoundDollars(l.Capacity)
	}
	return strconv.FormatInt(l.Capacity, 10)
}

// heldText formats the hold or the longest time of calls in flight, such as 1m, or returns "" for 0.
func heldText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return notation.PeriodText(d)
}

// periodOf formats the refill period of a token bucket, such as 1m. It returns "" for a quota and for calls in
// flight.
func periodOf(l dynalimit.Limit) string {
	if l.IsQuota() || l.IsConcurrent() {
		return ""
	}
	return notation.PeriodText(l.RefillPeriod)
}

// byName returns a map of the limits by their names.
func byName(limits []dynalimit.Limit) map[string]dynalimit.Limit {
	out := make(map[string]dynalimit.Limit, len(limits))
	for _, l := range limits {
		out[l.Name] = l
	}
	return out
}

// recordFields returns the fields that differ between two records, with both values as text. It ignores
// manager, version and time of creation, and cascade of a from without a parent.
func recordFields(from, to admin.Entity) (fields []Field) {
	add := func(name, a, b string) {
		if a != b {
			fields = append(fields, Field{name, a, b})
		}
	}
	add("name", quotedOrNone(from.Name), quotedOrNone(to.Name))
	add("parent", from.ParentID, to.ParentID)
	add("cascade", boolText(from.Cascade && from.ParentID != ""), boolText(to.Cascade)) // meaningless without a parent
	add("detached", boolText(from.Detached), boolText(to.Detached))
	add("plan", from.Plan, to.Plan)
	if !sameJSON(from.Metadata, to.Metadata) {
		add("metadata", canonicalJSON(from.Metadata), canonicalJSON(to.Metadata))
	}
	return fields
}

// quotedOrNone quotes a text, or returns "" if it is empty.
func quotedOrNone(s string) string {
	if s == "" {
		return ""
	}
	return strconv.Quote(s)
}
