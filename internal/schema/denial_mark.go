package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A process that denies a call by a nearly spent quota with an alert at 100 % marks the bucket: v_{limit}@! has the
// window and the burst. The alert follows from the mark, because a denial writes nothing else. A mark of another window,
// or of another burst, does not count.
const denialSign = alertSign + "!"

// nearlySpent is the part of a quota from which on its denials are marked: less than a tenth is left. A call that is too
// large for the rest of a quota denies nobody else.
const nearlySpent = 10

// denialAttr returns the attribute of a bucket with the mark of a limit.
func denialAttr(limit string) string { return byModelPrefix + limit + denialSign }

// markText returns the value of a denial mark: the ordinal of the window and the burst in millitokens.
func markText(window, burst int64) string {
	return strconv.FormatInt(window, 10) + " " + strconv.FormatInt(burst, 10)
}

// SplitMark returns the limit of a mark in Extras.Marks, and the name of its attribute without the prefix v_.
func SplitMark(mark string) (limit, name string) {
	limit, rest, _ := strings.Cut(mark, alertSign)
	if alertSign+rest[:1] == denialSign {
		return limit, limit + denialSign
	}
	return limit, mark
}

// LacksDenialMark reports whether a denial by a quota is to be marked: the bucket has an alert at 100 % for it, less than a
// tenth is left, and the mark is not there.
func (m *Image) LacksDenialMark(limit string) bool {
	i := m.Set.Index(limit)
	if i < 0 || m.Extras == nil || m.Plain || m.Limits[i].Ghost || !m.Limits[i].IsQuota() || m.Limits[i].Tokens >= m.Limits[i].Burst/nearlySpent {
		return false
	}
	l := &m.Limits[i]
	percent, _ := strings.CutPrefix(m.alertsOf(limit), limit+alertSign)
	return slices.Contains(percentagesIn(percent).List(), WholeQuota) && !slices.Contains(m.Extras.Marks, limit+denialSign+markText(int64(l.Window), l.Burst))
}

// MarkDenial returns the update that marks a denial by a quota. It fails to apply unless the bucket is the
// image's incarnation, has its window and burst, and is nearly spent. It changes nothing that a condition of
// another write sees.
func (m *Image) MarkDenial(limit string) Statement {
	i := m.Set.Index(limit)
	a, l, b := m.Set.attrs[i], &m.Limits[i], newStatementBuilder()
	b.setValue(denialAttr(limit), String(markText(int64(l.Window), l.Burst)))
	b.requireIncarnation(m.Incarnation)
	b.requireCompare(a.window, "=", Number(int64(l.Window)))
	b.requireCompare(a.burst, "=", Number(l.Burst))
	b.requireCompare(a.tokens, "<", Number(l.Burst/nearlySpent))
	return b.build()
}

// hasDenial reports whether a bucket has the mark of a quota in a window, with a burst.
func hasDenial(item Item, limit string, window, burst int64) bool {
	mark, is := item[denialAttr(limit)].(*types.AttributeValueMemberS)
	return is && mark.Value == markText(window, burst)
}
