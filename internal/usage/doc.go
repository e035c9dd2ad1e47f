// Package usage turns changes of buckets into what was consumed per hour. It is pure.
//
// A bucket counts what each limit ever consumed, net of what came back (the attribute tc).
// The records of a table's stream show that counter before and after each write: their
// differences, summed per entity, resource and hour, are the usage, whatever refilled the
// bucket meanwhile.
//
// The records of one item come in the order of their sequence numbers, along one lineage
// of shards, and may come again. So a snapshot remembers the last number that it holds:
// what is not above it was counted before. It also remembers the counter before its first
// record and after its last: what lies between them and was not summed, nobody sent.
package usage
