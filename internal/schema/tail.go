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

// TailCheckpointKept is the time for which a checkpoint stays after its write. A stream keeps its records for
// a day, and its shards not much longer.
const TailCheckpointKept = 3 * 24 * time.Hour

// TailKeys builds the keys of the state of the stream's followers with one name. The items are in a partition
// of their own, outside of every namespace, because the stream covers the whole table.
type TailKeys struct{ Name string }

// Partition returns the partition key of all items of the followers with this name.
func (k TailKeys) Partition() string { return tailPrefix + k.Name }

// Checkpoint returns the key of a shard's checkpoint.
func (k TailKeys) Checkpoint(s StreamShard) Key { return Key{k.Partition(), skCheckpoint + s.text()} }

// Checkpoints returns the common prefix of the sort keys of all checkpoints.
func (k TailKeys) Checkpoints() string { return skCheckpoint }

// Lease returns the key of the lease of the stream's follower.
func (k TailKeys) Lease() Key { return Key{k.Partition(), skLease} }

// OfTail reports whether an item is state of the stream's followers.
func OfTail(key Key) bool { return strings.HasPrefix(key.PK, tailPrefix) }

// StreamShard identifies a shard.
type StreamShard struct {
	// Stream is the label of the stream, Shard the id of the shard.
	Stream, Shard string
}

// text returns the shard in the form of checkpoint keys: the stream's label, # and the shard's id.
func (s StreamShard) text() string { return s.Stream + "#" + s.Shard }

// TailShardOf returns the shard in the key of a checkpoint. The key must be one of TailKeys.Checkpoint.
func TailShardOf(key Key) StreamShard {
	stream, shard, _ := strings.Cut(strings.TrimPrefix(key.SK, skCheckpoint), "#")
	return StreamShard{stream, shard}
}

// TailCheckpoint is the position up to which a shard was read.
type TailCheckpoint struct {
	// Number is the sequence number of the last processed record, in the form of the stream; "" before the
	// first. Seq is the same in a form that sorts as text.
	Number, Seq string
	// Finished means that the shard has ended and was processed completely.
	Finished bool
}

// Advance returns the statement that stores the checkpoint, with an expiry TailCheckpointKept after now (Unix
// seconds). It fails to apply if the stored checkpoint is finished or further, or at the same number and this
// one is not Finished.
func (c TailCheckpoint) Advance(now int64) Statement {
	b := newStatementBuilder()
	seq, _ := Sequence("0" + c.Number)
	b.setValue(attrUsageSeq, String(seq))
	b.setValue(attrTailNumber, String(c.Number))
	b.setValue(TTL, Number(now+int64(TailCheckpointKept/time.Second)))
	b.requireAbsent(attrTailDone)
	place, than := b.name(attrUsageSeq), " < "
	if c.Finished {
		b.setValue(attrTailDone, &types.AttributeValueMemberBOOL{Value: true})
		than = " <= "
	}
	b.require("(attribute_not_exists(" + place + ") OR " + place + than + b.value(String(seq)) + ")")
	return b.build()
}

// DecodeTailCheckpoint reads a checkpoint. A missing or malformed attribute is zero, so an absent item gives
// the zero TailCheckpoint.
func DecodeTailCheckpoint(item Item) TailCheckpoint {
	done, _ := item[attrTailDone].(*types.AttributeValueMemberBOOL)
	return TailCheckpoint{Number: Text(item, attrTailNumber), Seq: Text(item, attrUsageSeq), Finished: done != nil && done.Value}
}
