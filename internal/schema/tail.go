package schema

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	tailPrefix   = "TAIL#"
	skCheckpoint = "#CHECKPOINT#"

	attrTailNumber = "number"
	attrTailDone   = "finished"
)

// TailCheckpointKept is how long a checkpoint stays after it was written: a stream keeps
// its records for a day, and its shards not much longer.
const TailCheckpointKept = 3 * 24 * time.Hour

// TailKeys builds the keys of what those who follow the table's stream under one name
// remember. They are in a partition of their own, outside of every namespace, because the
// stream is of the whole table.
type TailKeys struct{ Name string }

// Partition has all of it.
func (k TailKeys) Partition() string { return tailPrefix + k.Name }

// Checkpoint is the key of how far a shard was read.
func (k TailKeys) Checkpoint(s StreamShard) Key { return Key{k.Partition(), skCheckpoint + s.text()} }

// Checkpoints is what the sort keys of all checkpoints begin with.
func (k TailKeys) Checkpoints() string { return skCheckpoint }

// Lease is the key of the lease of whoever follows the stream.
func (k TailKeys) Lease() Key { return Key{k.Partition(), skLease} }

// OfTail reports whether an item is what followers of a stream remember.
func OfTail(key Key) bool { return strings.HasPrefix(key.PK, tailPrefix) }

// StreamShard names a shard.
type StreamShard struct {
	// Stream is the stream's label, Shard the shard's id.
	Stream, Shard string
}

func (s StreamShard) text() string { return s.Stream + "#" + s.Shard }

// TailShardOf is the shard of the key of a checkpoint.
func TailShardOf(key Key) StreamShard {
	stream, shard, _ := strings.Cut(strings.TrimPrefix(key.SK, skCheckpoint), "#")
	return StreamShard{stream, shard}
}

// TailCheckpoint is how far a shard was read.
type TailCheckpoint struct {
	// Number is the sequence number of the last record that was processed, as the stream
	// writes it, "" for none; Seq is the same as texts compare.
	Number, Seq string
	// Finished says that the shard has ended and that all of it was processed.
	Finished bool
}

// Advance is the statement that moves a checkpoint forward, at a time in seconds since
// 1970. It is refused if the stored one is further, or as far and not less finished.
func (c TailCheckpoint) Advance(now int64) Statement {
	b := newStatementBuilder()
	seq, _ := Sequence("0" + c.Number)
	b.setValue(attrUsageSeq, String(seq))
	b.setValue(attrTailNumber, String(c.Number))
	b.setValue(TTL, Number(now+int64(TailCheckpointKept/time.Second)))
	b.absent(attrTailDone)
	place, than := b.name(attrUsageSeq), " < "
	if c.Finished {
		b.setValue(attrTailDone, &types.AttributeValueMemberBOOL{Value: true})
		than = " <= "
	}
	b.require("(attribute_not_exists(" + place + ") OR " + place + than + b.value(String(seq)) + ")")
	return b.build()
}

// DecodeTailCheckpoint reads a checkpoint; the zero one from no item.
func DecodeTailCheckpoint(item Item) TailCheckpoint {
	done, _ := item[attrTailDone].(*types.AttributeValueMemberBOOL)
	return TailCheckpoint{Number: Text(item, attrTailNumber), Seq: Text(item, attrUsageSeq), Finished: done != nil && done.Value}
}
