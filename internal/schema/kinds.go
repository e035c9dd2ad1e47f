package schema

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// Kinds of limits besides token buckets have attributes of their own: k_{name}_* in
// configuration, and q_{name}_* (quotas) and s_{name}_* in buckets. This version knows quotas,
// and pu, a bucket's pause. It must not take another kind for a bucket, nor leave one out.
const (
	attrGroups   = kindPrefix + "groups" // so that versions which know no groups refuse the level
	attrPause    = "pu"
	attrKindsMin = "kinds_min"
	// attrExtends means that the limits of the next less specific level apply too. Like every
	// mark of a level it begins with kindPrefix: a version that does not know it refuses the
	// level, and neither replaces nor removes it.
	attrExtends = kindPrefix + "extends"
	// attrExcept is a block that attrAdmit of a more specific level lifts.
	attrExcept = kindPrefix + "except"
	attrAdmit  = kindPrefix + "admit"
	// attrCounted makes a level unlimited and has its calls counted. It stands without attrUnlimited,
	// so that a version that does not know it refuses the level.
	attrCounted = kindPrefix + "counted"
)

// levelMarks are the marks of a level that are of no limit.
var levelMarks = []string{attrGroups, attrExtends, attrExcept, attrAdmit, attrCounted}

// slotsPrefix begins the attributes of a bucket that are of a kind which is not known yet.
const slotsPrefix = "s_"

// KindsState are attributes of a bucket such as kinds besides token buckets have, one of each
// form.
func KindsState() []string {
	return []string{quotaPrefix + "probe_tk", slotsPrefix + "probe_tk", attrPause}
}

// UnknownKind says that an item has a limit of a kind that this version does not know.
type UnknownKind struct {
	// Name is the limit's, or that of the attribute if it is of no limit.
	Name string
	// Attribute shows it.
	Attribute string
}

// Error names the limit and the attribute.
func (e *UnknownKind) Error() string {
	return fmt.Sprintf("%s is of a kind that this version does not know (attribute %s)", e.Name, e.Attribute)
}

// UnknownConfig is the first limit of an unknown kind that an item of configuration has, by
// its attribute; nil for none.
func UnknownConfig(item Item) *UnknownKind {
	return unknownIn(item, func(attr string) (string, bool) {
		name, ok := isKind(attr)
		if quota, _, of := splitQuota(attr); of {
			return quota, unknownQuota(item, quota)
		}
		return name, ok
	})
}

// UnknownState is the first limit of an unknown kind that a bucket has; nil for none.
func UnknownState(item Item) *UnknownKind {
	return unknownIn(item, func(attr string) (string, bool) {
		if rest, ok := strings.CutPrefix(attr, slotsPrefix); ok {
			return limitOf(rest), true
		}
		return unknownWindows(item, attr)
	})
}

// unknownWindows is the quota whose windows an attribute of a bucket says, if they are of a unit
// that is not known.
func unknownWindows(item Item, attr string) (name string, unknown bool) {
	rest, quota := strings.CutPrefix(attr, quotaPrefix)
	name, windows := strings.CutSuffix(rest, "_"+fieldWindows)
	unit, _, _ := strings.Cut(Text(item, attr), " ")
	return name, quota && windows && !slices.Contains(calendar.Units(), unit)
}

func unknownIn(item Item, named func(attr string) (string, bool)) *UnknownKind {
	var first *UnknownKind
	for attr := range item {
		if name, ok := named(attr); ok && (first == nil || attr < first.Attribute) {
			first = &UnknownKind{Name: name, Attribute: attr}
		}
	}
	return first
}

// isKind is the limit whose kind an attribute of configuration says; false for another
// attribute, and for that of a raise.
func isKind(attr string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(attr, kindPrefix)
	_, _, raise := splitRaise(attr)
	return limitOf(rest), ok && !raise && !slices.Contains(levelMarks, attr)
}

// limitOf is the name in {name}_{field}.
func limitOf(rest string) string {
	if i := strings.LastIndexByte(rest, '_'); i > 0 {
		return rest[:i]
	}
	return rest
}

// kindsMin is the least generation of kinds that clients of a table have to know: 0 for a
// table without other kinds, and more than any for one that cannot be read.
func kindsMin(item Item) int64 {
	d := decoder{item: item}
	if n, _ := d.number(attrKindsMin); d.err == nil {
		return n
	}
	return math.MaxInt64
}
