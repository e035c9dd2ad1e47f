package ledger

import (
	"strconv"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// RootSK is the sort key of the only item of a partition. A sort key must not be empty.
const RootSK = "#"

// OrgScope returns the scope of an organisation that counts the spend of its apps together.
func OrgScope(org string) string { return "ORG#" + org }

// AppScope returns the scope of an app that counts its spend by itself.
func AppScope(org, app string) string { return OrgScope(org) + "#APP#" + app }

// LabelPartition returns the partition of one label's counters. It contains the first shard of
// each day, and further shards that earlier versions wrote. Other shards have their own
// partitions.
func LabelPartition(scope, label string) string { return scope + "#LABEL#" + label }

// TagPartition returns the partition of the cost counters of a tag's values.
func TagPartition(scope, tag string) string { return scope + "#TAG#" + tag }

// dayPrefix returns the prefix of the sort keys of one day's shards.
func dayPrefix(day string) string { return "DAY#" + day + "#SH#" }

// tagPrefix returns the prefix of the sort keys of the shards of a tag's value on a day.
func tagPrefix(day, value string) string { return "DAY#" + day + "#" + value + "#SH#" }

// shardPartition returns the partition of a counter's shard. The first shard is in the
// counter's partition, so one query reads a counter with few writes.
func shardPartition(pk string, shard int) string {
	if shard == 0 {
		return pk
	}
	return pk + "#SH#" + strconv.Itoa(shard)
}

// shardKey returns the key of one shard of a counter, from the counter's partition and prefix.
func shardKey(pk, prefix string, shard int) store.Key {
	return store.Key{PK: shardPartition(pk, shard), SK: prefix + strconv.Itoa(shard)}
}

// closedPK returns the partition of a scope's closed totals, which are sorted by day and label.
func closedPK(scope string) string { return "T#" + scope }

// ClosedKey returns the key of the closed total of a day and label.
func ClosedKey(scope, day, label string) store.Key {
	return store.Key{PK: closedPK(scope), SK: day + "#" + label}
}

// AuditPartition returns the partition of an organisation's adjustments, which are sorted by
// app and id. The key contains neither day nor scope, so that an adjustment sent again after
// midnight is found.
func AuditPartition(org string) string { return "AUDIT#ORG#" + org }

// AuditKey returns the prefix of the sort keys of an app's adjustments.
func AuditKey(app string) string { return "APP#" + app + "#" }

// marksKept is the number of days after its day that a mark stays. Sweeps read fewer days.
const marksKept = 10

// markPartition returns the partition of a day's marks. Each label that a scope spent under has
// one mark.
func markPartition(day string) string { return "MARK#" + day }
