package schema

import (
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

// alertsAttr returns the attribute of a bucket with a limit's alerts.
func alertsAttr(limit string) string { return byModelPrefix + limit + alertSign }

// AlertText returns the alerts of limits in their order, such as usd@50,80,100; nil without one.
func AlertText(limits []ConfigLimit) (texts []string) {
	for _, l := range limits {
		if l.AlertAt != 0 {
			texts = append(texts, l.Name+alertSign+l.AlertAt.String())
		}
	}
	return texts
}

// AlertLimit returns the limit of a text of AlertText.
func AlertLimit(text string) string {
	limit, _, _ := strings.Cut(text, alertSign)
	return limit
}

// alertsOf returns the attribute of a bucket for a text of AlertText, and its value.
func alertsOf(text string) (attr string, value types.AttributeValue) {
	limit, percent, _ := strings.Cut(text, alertSign)
	return alertsAttr(limit), String(percent)
}

// putAlerts sets the alerts of limits in a configuration item, and removes the attribute without one.
func putAlerts(item Item, limits []ConfigLimit) {
	delete(item, attrAlerts)
	if texts := AlertText(limits); texts != nil {
		item[attrAlerts] = String(strings.Join(texts, " "))
	}
}

// readAlerts reads the alerts of limits from a configuration item. Those of other limits, which a version without
// alerts has removed, do not count.
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
