package schema

import (
	"strconv"
	"strings"
)

// A limit of calls in flight has attributes of its own in a bucket, in thousandths of a slot. s_{name}_tk are
// the free slots, s_{name}_bx is the number of all, and s_{name}_h{end} are the taken slots whose hold ends
// with an epoch: its end in Unix seconds, base 36. Free and taken slots sum to s_{name}_bx. The free ones are
// below 0 while more calls are open than the limit allows.
const (
	slotsPrefix = "s_"
	fieldEpoch  = "h"
)

// epochBase is the base of the number in the name of an epoch.
const epochBase = 36

// splitSlots splits s_{name}_{field} at the last underscore. field is "tk", "bx", or "h" for an epoch; name and
// field are "" for any other attribute.
func splitSlots(attr string) (name, field string) {
	rest, ok := strings.CutPrefix(attr, slotsPrefix)
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 1 {
		return "", ""
	}
	if field = rest[i+1:]; field == "tk" || field == "bx" {
		return rest[:i], field
	}
	if _, is := epochIn(field); is {
		return rest[:i], fieldEpoch
	}
	return "", ""
}

// epochIn returns the end of an epoch, in Unix seconds, from the field h{end} of its attribute. ok is false for
// any other field.
func epochIn(field string) (end int64, ok bool) {
	text, ok := strings.CutPrefix(field, fieldEpoch)
	if !ok {
		return 0, false
	}
	end, err := strconv.ParseInt(text, epochBase, 64)
	return end, err == nil && end > 0 && strconv.FormatInt(end, epochBase) == text
}

// epochAttr returns the name of an epoch's attribute: prefix and the end, in Unix seconds, in base 36.
func epochAttr(prefix string, end int64) string { return prefix + strconv.FormatInt(end, epochBase) }
