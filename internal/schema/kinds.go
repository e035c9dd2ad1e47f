package schema

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// Kinds of limits other than token buckets have attributes of their own: k_{name}_* in configuration, and
// q_{name}_* (quotas) and s_{name}_* (calls in flight) in buckets. pu is a bucket's pause. This version must
// not mistake an unknown kind for a token bucket, nor skip one.
const (
	attrGroups   = kindPrefix + "groups" // so that versions that do not know groups refuse the source
	attrPause    = "pu"
	attrKindsMin = "kinds_min"
	// attrExtends means that the limits of the next less specific source apply too. Like every mark of a source
	// it begins with kindPrefix. A version that does not know it refuses the source, and neither replaces nor
	// removes it.
	attrExtends = kindPrefix + "extends"
	// attrExcept is a block that attrAdmit of a more specific source lifts.
	attrExcept = kindPrefix + "except"
	attrAdmit  = kindPrefix + "admit"
	// attrCounted makes a source unlimited and has its calls counted. The item then lacks attrUnlimited, so
	// that a version that does not know it refuses the source.
	attrCounted = kindPrefix + "counted"
)

// sourceMarks are the marks of a source that do not belong to a limit.
var sourceMarks = []string{attrGroups, attrExtends, attrExcept, attrAdmit, attrCounted}

// attrWaiterNote is the note of interactive waiters in a bucket, and attrBatchNote that of batch waiters. byModelPrefix
// begins the units of limits and the counters by model.
const (
	attrWaiterNote = "wn"
	attrBatchNote  = "wb"
	byModelPrefix  = "v_"
)

// KindsState returns one attribute name of each form that a bucket may have beside those of token buckets.
// Roles of services must be able to write all of them.
func KindsState() []string {
	return []string{quotaPrefix + "probe_tk", slotsPrefix + "probe_tk", attrPause, attrWaiterNote, attrBatchNote, byModelPrefix + "probe"}
}

// UnknownKind is the error of an item with a limit of a kind that this version does not know.
type UnknownKind struct {
	// Name is the name of the limit, or of the attribute if it does not belong to a limit.
	Name string
	// Attribute is the attribute of that kind.
	Attribute string
}

// Error names the limit and the attribute.
func (e *UnknownKind) Error() string {
	return fmt.Sprintf("%s is of a kind that this version does not know (attribute %s)", e.Name, e.Attribute)
}

// UnknownConfig returns the error for the alphabetically first attribute of an unknown kind of limit in a
// configuration item; nil if all kinds are known.
func UnknownConfig(item Item) *UnknownKind {
	return unknownIn(item, func(attr string) (string, bool) {
		name, ok := limitOfKind(attr)
		if quota, _, of := splitQuota(attr); of {
			return quota, unknownQuota(item, quota)
		}
		return name, ok
	})
}

// UnknownState returns the error for the alphabetically first attribute of an unknown kind of limit in a
// bucket; nil if all kinds are known.
func UnknownState(item Item) *UnknownKind {
	return unknownIn(item, func(attr string) (string, bool) { return isUnknownState(item, attr) })
}

// isUnknownState reports whether an attribute of a bucket belongs to a limit of an unknown kind, or has a
// quota's windows in an unknown unit. It returns the limit's name.
func isUnknownState(item Item, attr string) (name string, unknown bool) {
	if rest, ok := strings.CutPrefix(attr, slotsPrefix); ok {
		_, field := splitSlots(attr)
		return limitOf(rest), field == ""
	}
	rest, quota := strings.CutPrefix(attr, quotaPrefix)
	name, windows := strings.CutSuffix(rest, "_"+fieldWindows)
	if !quota || !windows {
		return name, false
	}
	unit, _, _ := strings.Cut(Text(item, attr), " ")
	return name, !slices.Contains(calendar.Units(), unit)
}

// unknownIn returns the error for the alphabetically first attribute for which named returns true, with the
// limit's name from named. It returns nil without such an attribute.
func unknownIn(item Item, named func(attr string) (string, bool)) *UnknownKind {
	var first *UnknownKind
	for attr := range item {
		if name, ok := named(attr); ok && (first == nil || attr < first.Attribute) {
			first = &UnknownKind{Name: name, Attribute: attr}
		}
	}
	return first
}

// limitOfKind returns the name of the limit to which an attribute with the prefix k_ belongs. It returns false
// for another attribute, for one of a raise, and for a mark of the source.
func limitOfKind(attr string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(attr, kindPrefix)
	_, _, raise := splitRaise(attr)
	return limitOf(rest), ok && !raise && !slices.Contains(sourceMarks, attr)
}

// limitOf returns the limit's name in a text {name}_{field}. A text without a field is returned whole.
func limitOf(rest string) string {
	if i := strings.LastIndexByte(rest, '_'); i > 0 {
		return rest[:i]
	}
	return rest
}

// kindsMin returns the least generation of kinds that a client of the table must know. It is 0 if the version
// record names none, and the largest int64 if the attribute is malformed.
func kindsMin(item Item) int64 {
	d := decoder{item: item}
	if n, _ := d.number(attrKindsMin); d.err == nil {
		return n
	}
	return math.MaxInt64
}
