package ledger

import (
	"strconv"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// RootSK is the sort key of the only item of a partition. A sort key must not be empty.
const RootSK = "#"

// OrgScope returns the scope of an organisation whose apps have a common spend, such as ORG#<id>.
func OrgScope(org string) string { return "ORG#" + org }

// AppScope returns the scope of an app whose spend counts apart from the other apps, such as
// ORG#<org>#APP#<app>.
func AppScope(org, app string) string { return OrgScope(org) + "#APP#" + app }

// LabelPartition returns the partition of one label's counters. It contains the first shard of
// each day, and further shards that earlier versions wrote. Other shards have their own
// partitions.
func LabelPartition(scope, label string) string { return scope + "#LABEL#" + label }

// TagPartition returns the partition with the cost counters of all values of a tag in a scope: the first shard
// of each value and day.
func TagPartition(scope, tag string) string { return scope + "#TAG#" + tag }

// dayPrefix returns the prefix of the sort keys of a day's counter. The number of the shard follows it.
func dayPrefix(day string) string { return "DAY#" + day + "#SH#" }

// tagPrefix returns the prefix of the sort keys of the counter of one value of a tag on a day. The number of
// the shard follows it.
func tagPrefix(day, value string) string { return "DAY#" + day + "#" + value + "#SH#" }

// shardPartition returns the partition of a shard of a counter in the partition pk. Shard 0 is in pk itself;
// every other shard has a partition of its own.
func shardPartition(pk string, shard int) string {
	if shard == 0 {
		return pk
	}
	return pk + "#SH#" + strconv.Itoa(shard)
}

// shardKey returns the key of the item of one shard of a counter. pk and prefix are the counter's partition and
// prefix; shard 0 is the first.
func shardKey(pk, prefix string, shard int) store.Key {
	return store.Key{PK: shardPartition(pk, shard), SK: prefix + strconv.Itoa(shard)}
}

// closedPK returns the partition of the stored totals of a scope's ended days. Their sort keys are the day and
// the label.
func closedPK(scope string) string { return "T#" + scope }

// ClosedKey returns the key in the usage table of the stored total of a scope's label on an ended day.
func ClosedKey(scope, day, label string) store.Key {
	return store.Key{PK: closedPK(scope), SK: day + "#" + label}
}

// AuditPartition returns the partition of an organisation's adjustments, which are sorted by
// app and id. The key contains neither day nor scope, so that an adjustment sent again after
// midnight is found.
func AuditPartition(org string) string { return "AUDIT#ORG#" + org }

// AuditKey returns the prefix of the sort keys of an app's adjustments in AuditPartition. The adjustment's id
// follows it.
func AuditKey(app string) string { return "APP#" + app + "#" }

// marksKept is the number of days after its day that a mark stays. Sweeps read fewer days.
const marksKept = 10

// markPartition returns the partition of the marks of a day, of all organisations. A mark says that a scope has
// spend under a label on the day.
func markPartition(day string) string { return "MARK#" + day }
