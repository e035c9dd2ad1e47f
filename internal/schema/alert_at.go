package schema

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The alerts of a source's limits stand in the attribute al of its item, in the form of AlertText, one after the
// other. They change nothing that a limit admits, so versions that do not know the attribute pass over it. A claim
// copies those of a limit into its bucket, as v_{limit}@: readers of the stream then need no configuration.
const (
	attrAlerts = "al"
	alertSign  = "@"
)

// alertsAttr returns the name of the bucket attribute with a limit's alerts.
func alertsAttr(limit string) string { return byModelPrefix + limit + alertSign }

// AlertText returns one text for each limit with alerts, such as usd@50,80,100, sorted as texts. It returns nil
// if no limit has alerts.
func AlertText(limits []ConfigLimit) (texts []string) {
	for _, l := range limits {
		if l.AlertAt != 0 {
			texts = append(texts, l.Name+alertSign+l.AlertAt.String())
		}
	}
	slices.Sort(texts) // usd-month@50 before usd@50
	return texts
}

// AlertLimit returns the name of the limit in a text of AlertText.
func AlertLimit(text string) string {
	limit, _, _ := strings.Cut(text, alertSign)
	return limit
}

// alertsOf splits a text of AlertText: attr is the name of the bucket attribute for its limit, value the
// percentages as a string.
func alertsOf(text string) (attr string, value types.AttributeValue) {
	limit, percent, _ := strings.Cut(text, alertSign)
	return alertsAttr(limit), String(percent)
}

// putAlerts sets the alerts of limits in a configuration item, in place. It removes the attribute if no limit
// has alerts.
func putAlerts(item Item, limits []ConfigLimit) {
	delete(item, attrAlerts)
	if texts := AlertText(limits); texts != nil {
		item[attrAlerts] = String(strings.Join(texts, " "))
	}
}

// readAlerts sets AlertAt of quotas among limits, in place, from a configuration item. It ignores alerts of any
// other limit, which a version without alerts may have removed.
func readAlerts(item Item, limits []ConfigLimit) {
	for one := range strings.FieldsSeq(Text(item, attrAlerts)) {
		name, text, _ := strings.Cut(one, alertSign)
		for i := range limits {
			if l := &limits[i]; l.Name == name && l.IsQuota() {
				l.AlertAt = percentagesIn(text)
			}
		}
	}
}
