package schema

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	tailPrefix   = "TAIL#"
	skCheckpoint = "#CHECKPOINT#"
	skShardLease = "#LEASE#"
	skMember     = "#MEMBER#"

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

// Leases is the range of the sort keys of all leases: of shards, and of those who follow.
func (k TailKeys) Leases() (from, to string) {
	return skShardLease, strings.TrimSuffix(skMember, "#") + "$" // the sign after '#'
}

// Lease is the key of the lease of a shard.
func (k TailKeys) Lease(s StreamShard) Key { return Key{k.Partition(), skShardLease + s.text()} }

// Member is the key of the lease by which one who follows the stream says that it is there.
func (k TailKeys) Member(id string) Key { return Key{k.Partition(), skMember + id} }

// OfTail reports whether an item is what followers of a stream remember.
func OfTail(key Key) bool { return strings.HasPrefix(key.PK, tailPrefix) }

// StreamShard names a shard.
type StreamShard struct {
	// Stream is the stream's label, Shard the shard's id.
	Stream, Shard string
}

func (s StreamShard) text() string { return s.Stream + "#" + s.Shard }

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

// TailMemory is what followers of a stream remember.
type TailMemory struct {
	Checkpoints map[StreamShard]TailCheckpoint
	Leases      map[StreamShard]Lease
	// Members are those who follow the stream, by id.
	Members map[string]Lease
}

// DecodeTail reads the items of a tail's partition. An item that cannot be understood
// counts for nothing.
func DecodeTail(items []Item) TailMemory {
	m := TailMemory{map[StreamShard]TailCheckpoint{}, map[StreamShard]Lease{}, map[string]Lease{}}
	for _, item := range items {
		sk := KeyOf(item).SK
		if rest, ok := strings.CutPrefix(sk, skCheckpoint); ok {
			m.Checkpoints[streamShard(rest)] = DecodeTailCheckpoint(item)
			continue
		}
		lease, err := DecodeLease(item)
		if err != nil {
			continue
		}
		if rest, ok := strings.CutPrefix(sk, skShardLease); ok {
			m.Leases[streamShard(rest)] = lease
		} else if id, ok := strings.CutPrefix(sk, skMember); ok {
			m.Members[id] = lease
		}
	}
	return m
}

func streamShard(text string) StreamShard {
	stream, shard, _ := strings.Cut(text, "#")
	return StreamShard{stream, shard}
}

// LeaseIsFree is the condition under which the item of a lease may be deleted: nobody
// holds it.
func LeaseIsFree() Statement {
	b := newStatementBuilder()
	b.absent(attrToken)
	return b.build()
}
