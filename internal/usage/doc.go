// Package usage turns changes of buckets into consumption per hour. It is pure.
//
// A bucket counts the whole consumption of each limit, net of give-backs (the attribute tc).
// The records of a table's stream show that counter before and after each write: their
// differences, summed per entity, resource and hour, are the usage, independent of
// refill.
//
// The records of one item come in the order of their sequence numbers, along one lineage
// of shards, and may come again. So a snapshot stores its last number:
// a record that is not above it was counted before. It also stores the counter before its first
// record and after its last: an unsummed difference between them is a missing record.
package usage
