// Package shards decides which shards of a stream may be read. It is pure.
//
// The records of an item come in order along a lineage of shards: a shard is read after its
// parent has been read to the end, or has left the stream. The shards of a replaced stream
// are read before those of its successor.
package shards
