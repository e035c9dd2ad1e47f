package schema

import (
	"strings"
	"time"
)

// AlertPrefix is the beginning of the sort keys of alerts, in the partition of their entity.
const AlertPrefix = skAlertPrefix

// ClosedAlerts returns the partition key of one shard of a GSI3 list of delivered and given-up alerts. The list
// has those of a namespace, by the prefix of its keys, that were decided on the UTC day of at.
func ClosedAlerts(prefix string, at time.Time, shard string) string {
	return prefix + "ALERTS#" + at.UTC().Format(time.DateOnly) + "#" + shard
}

// KeysOfAlert returns the Keys of the namespace in the key of an alert. It returns false for the key of another
// item.
func KeysOfAlert(key Key) (k Keys, ok bool) {
	k, kind, _, ok := splitPartition(key.PK)
	return k, ok && kind == "ENTITY#" && IsAlert(key)
}

// AlertTime returns a time as a text in UTC with milliseconds, by which the lists of alerts sort.
func AlertTime(at time.Time) string { return at.UTC().Format(alertTime) }

// ListedAlert returns the time of the decision of an alert, from its item or its entry in a list, and whether the alert
// is open. It returns ok as false for another item.
func ListedAlert(item Item) (at time.Time, open, ok bool) {
	at, err := time.Parse(alertTime, Text(item, GSI3SK))
	return at, strings.HasPrefix(Text(item, GSI3PK), openAlerts), err == nil
}
