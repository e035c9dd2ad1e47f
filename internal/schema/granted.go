package schema

import (
	"strconv"
	"strings"
)

// An administrator who adds tokens to a quota with alerts adds them to v_{limit}@+{window} too. So the use of a quota in
// a window is its burst and its grants, less its tokens. Other windows' attributes do not count, and the next grant
// removes them. Administrators of older versions leave the attribute out: the use then appears lower by what they grant.
const grantedSign = alertSign + "+"

// grantedAttr returns the name of the bucket attribute with the millitokens that a quota was granted in a
// window, by the window's ordinal.
func grantedAttr(limit string, window int64) string {
	return byModelPrefix + limit + grantedSign + strconv.FormatInt(window, 10)
}

// alertsOf returns the alerts of a limit in the form of AlertText, "" without one.
func (m *Image) alertsOf(limit string) string {
	if m.Extras != nil {
		for _, text := range m.Extras.Alerts {
			if AlertLimit(text) == limit {
				return text
			}
		}
	}
	return ""
}

// noteGranted adds to a statement that a quota is granted millitokens in a window, and does not change the
// image. It also removes the mark of a denial and the grants of other windows. It does nothing for a quota
// without alerts, and for an amount of 0 or less.
func (m *Image) noteGranted(b *statementBuilder, limit string, window, amount int64) {
	if m.alertsOf(limit) == "" || amount <= 0 {
		return
	}
	b.addNumber(grantedAttr(limit, window), amount)
	b.drop(denialAttr(limit, false))
	b.drop(denialAttr(limit, true))
	for _, mark := range m.Extras.Marks {
		if attr := byModelPrefix + mark; strings.HasPrefix(mark, limit+grantedSign) && attr != grantedAttr(limit, window) {
			b.drop(attr)
		}
	}
}
