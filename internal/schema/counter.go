package schema

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A bucket has the unit of a limit in v_{limit}: "usd" for money. v_{limit}#{model} counts the amounts of a model that
// no level above counts, and v_{limit}^#{model} those that a level above counts too. Only differences of these counters
// mean something. v_{limit}@ has the limit's alerts (alert_at.go), and v_{limit}@! the mark of a denial
// (denial_mark.go). v_{limit}@+{window} has what was granted in a window (granted.go). Versions without usage by model
// pass over all of them.

// MostModels bounds the counters by model in an item.
const MostModels = 16

// fullItem is the size in bytes from which an item gets no new counter by model. An update of an item above 1,024
// bytes costs a second write unit; the rest is for notes, and for counters that other processes add meanwhile.
const fullItem = 900

// counterRoom is the room of a counter's value, in bytes.
const counterRoom = 12

// modelSign separates limit and model in the name of a counter by model. No name contains it.
const modelSign = "#"

// unitAttr returns the name of the bucket attribute with a limit's unit.
func unitAttr(limit string) string { return byModelPrefix + limit }

// ModelCounter returns the name of a limit's counter of a model. With passed it names the counter of the
// amounts that a level above counts too.
func ModelCounter(limit, model string, passed bool) string {
	if passed {
		limit = PassedOn(limit)
	}
	return limit + modelSign + model
}

// SplitModel splits the name of a counter by model into limit and model, and reports whether a level above
// counts its amounts too. For any other counter it returns the whole name as limit, and ok = false.
func SplitModel(counter string) (limit, model string, passed, ok bool) {
	limit, model, ok = strings.Cut(counter, modelSign)
	if !ok {
		return counter, "", false, false
	}
	limit, passed = CounterOf(limit)
	return limit, model, passed, true
}

// Extras are the rare parts of an item with quotas: the names of its counters by model, the alerts of its limits
// in the form of AlertText, and the marks of denials and grants. Each list is sorted. They are never changed.
type Extras struct{ Models, Alerts, Marks []string }

// extrasIn returns the rare parts of an item with quotas, and the size of the item in bytes. It copies each text, so
// that an image does not keep the answer in memory.
func extrasIn(item Item) (e Extras, size int) {
	for attr, value := range item {
		size += len(attr) + sizeOf(value)
		name, ok := strings.CutPrefix(attr, byModelPrefix)
		switch {
		case !ok:
		case strings.Contains(name, modelSign):
			e.Models = append(e.Models, strings.Clone(name))
		case strings.HasSuffix(name, alertSign):
			e.Alerts = append(e.Alerts, name+Text(item, attr))
		case strings.Contains(name, alertSign):
			e.Marks = append(e.Marks, name+Text(item, attr))
		}
	}
	slices.Sort(e.Models)
	slices.Sort(e.Alerts)
	slices.Sort(e.Marks)
	return e, size
}

// sizeOf returns about the size of a text, binary value or number of an item, in bytes; 0 for other types.
// Numbers count more than they take.
func sizeOf(value types.AttributeValue) int {
	switch v := value.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return len(v.Value)/2 + 2
	}
	return 0
}

// Units returns a new map of the units of a bucket's limits by limit name; nil if no limit has a unit.
func Units(item Item) (units map[string]string) {
	for attr := range item {
		if limit, ok := strings.CutPrefix(attr, byModelPrefix); ok && limit != "" && !strings.ContainsAny(limit, modelSign+alertSign) {
			if unit := Text(item, attr); unit != "" {
				if units == nil {
					units = map[string]string{}
				}
				units[limit] = unit
			}
		}
	}
	return units
}

// passedMark is the suffix of the counter of the part of a limit that a level above counted too. No limit's
// name has it.
const passedMark = "^"

// PassedOn returns the name of the counter of the part of a limit that a level above counted too.
func PassedOn(limit string) string { return limit + passedMark }

// CounterOf returns the limit of a counter. passed means that it counts the part that a level above counted
// too.
func CounterOf(counter string) (limit string, passed bool) {
	return strings.CutSuffix(counter, passedMark)
}

// IsLimit reports whether the name of a counter is that of a limit's own counter: neither of passed amounts,
// nor by model.
func IsLimit(counter string) bool {
	return !strings.HasSuffix(counter, passedMark) && !strings.Contains(counter, modelSign)
}

// IsByModel reports whether a counter is one by model.
func IsByModel(counter string) bool {
	_, _, _, is := SplitModel(counter)
	return is
}
