// Package aggregator turns the stream of a table into usage: the exact consumption of each entity of
// each resource, hour by hour.
//
// A Processor adds records of the stream to hourly snapshots in the same table. Every
// snapshot stores its last record, so that a record counts once however
// often it comes, and its counters then, so that a missing record is
// noticed. [FromStream] converts records of DynamoDB Streams.
//
// A Tail follows the stream: it reads its shards and gives their records to a Processor, or to another
// function. Of several one works, and the others stand by.
package aggregator
