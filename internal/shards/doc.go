// Package shards decides which shards of a stream are read, and by whom. It is pure.
//
// The records of an item come in order along a lineage of shards: a shard is read when its
// parent has been read to the end, or is not in the stream any more. Those of a stream that
// was replaced are read before those of its successor.
//
// Whoever follows a stream takes shards until it has its share: as many as there are,
// divided by the followers, rounded up. It leaves what it has above that, once somebody has
// two fewer.
package shards
