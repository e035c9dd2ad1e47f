package schema

import (
	"slices"
	"strconv"
	"strings"
)

const (
	// mostPercentages bounds a set of percentages: each has a byte of it.
	mostPercentages = 8
	// badPercentages is the set of PercentagesOf for percentages that no set has.
	badPercentages Percentages = -1
)

// WholeQuota is the percentage of the whole quota. As an alert it means that a call was denied.
const WholeQuota = 100

// Percentages are at most 8 percentages from 1 to 100. Sets with the same percentages are equal by ==. The zero value is
// the empty set. The lowest percentage is in the lowest byte.
type Percentages int64

// PercentagesOf returns the set of percentages, given in any order, without repetitions. For a percentage below
// 1 or above 100, or for more than 8, it returns an invalid set: a limit with it is refused where it is used.
func PercentagesOf(percent ...int) (set Percentages) {
	all := slices.Compact(slices.Sorted(slices.Values(percent)))
	if len(all) > mostPercentages || len(all) > 0 && (all[0] < 1 || all[len(all)-1] > WholeQuota) {
		return badPercentages
	}
	for i, p := range all {
		set |= Percentages(p) << (8 * i)
	}
	return set
}

// List returns the percentages in ascending order. It returns nil for the empty set, and -1 alone for an
// invalid one.
func (s Percentages) List() (percent []int) {
	if s < 0 {
		return []int{-1}
	}
	for ; s > 0; s >>= 8 {
		percent = append(percent, int(s&0xff))
	}
	return percent
}

// String joins the percentages with commas.
func (s Percentages) String() string {
	var texts []string
	for _, p := range s.List() {
		texts = append(texts, strconv.Itoa(p))
	}
	return strings.Join(texts, ",")
}

// isValid reports whether PercentagesOf returns the set for good percentages.
func (s Percentages) isValid() bool { return s >= 0 && s == PercentagesOf(s.List()...) }

// percentagesIn reads the text of a set. It leaves out parts that are not from 1 to 100, and all after the eighth.
func percentagesIn(text string) Percentages {
	var percent []int
	for part := range strings.SplitSeq(text, ",") {
		if p, err := strconv.Atoi(part); err == nil && p >= 1 && p <= WholeQuota && len(percent) < mostPercentages {
			percent = append(percent, p)
		}
	}
	return PercentagesOf(percent...)
}
