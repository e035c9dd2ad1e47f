package manifest

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
)

// sameLevel says whether two levels say the same, whoever manages them.
func sameLevel(a, b admin.LimitConfig) bool { return len(levelFields(a, b)) == 0 }

// levelFields is what differs between two levels.
func levelFields(from, to admin.LimitConfig) []Field {
	fields := limitFields(from.Limits, to.Limits)
	add := func(name, a, b string) {
		if a != b {
			fields = append(fields, Field{name, a, b})
		}
	}
	add("extends", truth(from.Extends), truth(to.Extends))
	add("lifted", strings.Join(from.Lifted, ", "), strings.Join(to.Lifted, ", "))
	add("unlimited", string(unlimitedOf(from)), string(unlimitedOf(to)))
	add("blocked", truth(from.Blocked), truth(to.Blocked))
	add("blocked_except", truth(from.BlockedExcept), truth(to.BlockedExcept))
	add("admit", truth(from.Admit), truth(to.Admit))
	add("on_unavailable", string(from.OnUnavailable), string(to.OnUnavailable))
	add("groups", strings.Join(from.Groups, ", "), strings.Join(to.Groups, ", "))
	return fields
}

func truth(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// limitFields is what differs between two lists of limits, by their names.
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
			fields = append(fields, Field{Name: name, To: notation.Describe(b)})
		case !after:
			fields = append(fields, Field{Name: name, From: notation.Describe(a)})
		default:
			fields = append(fields, within(name, a, b)...)
		}
	}
	return fields
}

// within is what differs between two limits of one name. Burst and refill that follow the
// capacity say nothing of their own.
func within(name string, a, b dynalimit.Limit) (fields []Field) {
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
	add("per_model", truth(a.PerModel), truth(b.PerModel))
	add("max_debt", count(a.MaxDebt), count(b.MaxDebt))
	add("shadow", truth(a.Shadow), truth(b.Shadow))
	return fields
}

// capacityText is a capacity: dollars of money.
func capacityText(l dynalimit.Limit) string {
	if l.Unit == dynalimit.USD {
		return notation.RoundDollars(l.Capacity)
	}
	return strconv.FormatInt(l.Capacity, 10)
}

// periodOf is the period of a bucket; "" of a quota.
func periodOf(l dynalimit.Limit) string {
	if l.IsQuota() {
		return ""
	}
	return notation.PeriodText(l.RefillPeriod)
}

func byName(limits []dynalimit.Limit) map[string]dynalimit.Limit {
	out := make(map[string]dynalimit.Limit, len(limits))
	for _, l := range limits {
		out[l.Name] = l
	}
	return out
}

// recordFields is what differs between two records.
func recordFields(from, to admin.Entity) (fields []Field) {
	add := func(name, a, b string) {
		if a != b {
			fields = append(fields, Field{name, a, b})
		}
	}
	add("name", quotedOrNone(from.Name), quotedOrNone(to.Name))
	add("parent", from.ParentID, to.ParentID)
	add("cascade", truth(from.Cascade && from.ParentID != ""), truth(to.Cascade)) // without a parent it says nothing
	add("detached", truth(from.Detached), truth(to.Detached))
	add("plan", from.Plan, to.Plan)
	if !sameJSON(from.Metadata, to.Metadata) {
		add("metadata", canonical(from.Metadata), canonical(to.Metadata))
	}
	return fields
}

func quotedOrNone(s string) string {
	if s == "" {
		return ""
	}
	return strconv.Quote(s)
}
