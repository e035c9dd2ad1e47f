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

// shadowSign is the sign of the mark v_{limit}@? of a call that the quota would have denied, had it not been in shadow.
// A denial's mark stands for both.
const shadowSign = alertSign + "?"

// nearlySpent is the part of a quota from which on its denials are marked: less than a tenth is left. A call that is too
// large for the rest of a quota denies nobody else.
const nearlySpent = 10

// denialAttr returns the attribute of a bucket with the mark of a denial by a limit. With shadow it is that of
// a denial that did not happen, because the limit is in shadow.
func denialAttr(limit string, shadow bool) string {
	if shadow {
		return byModelPrefix + limit + shadowSign
	}
	return byModelPrefix + limit + denialSign
}

// markText returns the value of a denial mark: the ordinal of the window and the burst in millitokens.
func markText(window, burst int64) string {
	return strconv.FormatInt(window, 10) + " " + strconv.FormatInt(burst, 10)
}

// SplitMark returns the limit of a mark of a denial or a grant in Extras.Marks, and the name of its attribute
// without the prefix v_.
func SplitMark(mark string) (limit, name string) {
	limit, rest, _ := strings.Cut(mark, alertSign)
	if sign := alertSign + rest[:1]; sign == denialSign || sign == shadowSign {
		return limit, limit + sign
	}
	return limit, mark
}

// LacksDenialMark reports whether a denial by a quota is to be marked or, with shadow, one that did not happen.
// It has an alert at 100 % then, less than a tenth is left, and the mark is missing. It is false for any other
// limit, and for a ghost.
func (m *Image) LacksDenialMark(limit string, shadow bool) bool {
	i := m.Set.Index(limit)
	if i < 0 || m.Extras == nil || m.Plain || m.Limits[i].Ghost || !m.Limits[i].IsQuota() || m.Limits[i].Tokens >= m.Limits[i].Burst/nearlySpent {
		return false
	}
	l := &m.Limits[i]
	percent, _ := strings.CutPrefix(m.alertsOf(limit), limit+alertSign)
	text := markText(int64(l.Window), l.Burst)
	return slices.Contains(percentagesIn(percent).List(), WholeQuota) && !slices.Contains(m.Extras.Marks, limit+denialSign+text) &&
		!(shadow && slices.Contains(m.Extras.Marks, limit+shadowSign+text))
}

// MarkDenial returns the update that marks a denial by a quota, or with shadow one that did not happen. It fails to
// apply unless the bucket is the image's incarnation, has its window and burst, and is nearly spent. It changes nothing
// that a condition of another write sees.
func (m *Image) MarkDenial(limit string, shadow bool) Statement {
	i := m.Set.Index(limit)
	a, l, b := m.Set.attrs[i], &m.Limits[i], newStatementBuilder()
	b.setValue(denialAttr(limit, shadow), String(markText(int64(l.Window), l.Burst)))
	b.requireIncarnation(m.Incarnation)
	b.requireCompare(a.window, "=", Number(int64(l.Window)))
	b.requireCompare(a.burst, "=", Number(l.Burst))
	b.requireCompare(a.tokens, "<", Number(l.Burst/nearlySpent))
	return b.build()
}

// hasDenial reports whether a bucket has the mark of a quota in a window, with a burst: that of a denial or, with
// shadow, of one that did not happen.
func hasDenial(item Item, limit string, window, burst int64, shadow bool) bool {
	mark, is := item[denialAttr(limit, shadow)].(*types.AttributeValueMemberS)
	return is && mark.Value == markText(window, burst)
}
