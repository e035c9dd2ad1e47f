// Package shards decides which shards of a stream may be read. It is pure.
//
// The records of an item come in order along a lineage of shards: a shard is read when its
// parent has been read to the end, or is not in the stream any more. Those of a stream that
// was replaced are read before those of its successor.
package shards
