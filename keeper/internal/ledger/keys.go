package ledger

import (
	"strconv"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// RootSK is the sort key of an item that is alone in its partition: it must not be
// empty.
const RootSK = "#"

// OrgScope names an organisation whose apps' spend is counted together.
func OrgScope(org string) string { return "ORG#" + org }

// AppScope names an app whose spend is counted by itself.
func AppScope(org, app string) string { return OrgScope(org) + "#APP#" + app }

// LabelPartition is the partition of one label's counters: the first shard of each day, with
// those that versions before wrote beside it. Others have partitions of their own.
func LabelPartition(scope, label string) string { return scope + "#LABEL#" + label }

// TagPartition is the partition of the counters of a tag's values.
func TagPartition(scope, tag string) string { return scope + "#TAG#" + tag }

// dayPrefix begins the sort keys of one day's shards.
func dayPrefix(day string) string { return "DAY#" + day + "#SH#" }

func tagPrefix(day, value string) string { return "DAY#" + day + "#" + value + "#SH#" }

// shardPartition is the partition of a counter's shard: the first is in the counter's own, so
// that what is written seldom is read with one query.
func shardPartition(pk string, shard int) string {
	if shard == 0 {
		return pk
	}
	return pk + "#SH#" + strconv.Itoa(shard)
}

func shardKey(pk, prefix string, shard int) store.Key {
	return store.Key{PK: shardPartition(pk, shard), SK: prefix + strconv.Itoa(shard)}
}

// closedPK holds the closed totals of a scope, by day and label.
func closedPK(scope string) string { return "T#" + scope }

// ClosedKey is the closed total of a day and label.
func ClosedKey(scope, day, label string) store.Key {
	return store.Key{PK: closedPK(scope), SK: day + "#" + label}
}

// AuditPartition holds the adjustments of an organisation, by app and id: a day's
// scope does not matter, so that one sent again after midnight is found.
func AuditPartition(org string) string { return "AUDIT#ORG#" + org }

// AuditKey begins the sort keys of an app's adjustments.
func AuditKey(app string) string { return "APP#" + app + "#" }

// marksKept is how many days after its day a mark stays. Sweeps look at fewer.
const marksKept = 10

// markPartition holds the marks of a day: one for each label that a scope spent under.
func markPartition(day string) string { return "MARK#" + day }
