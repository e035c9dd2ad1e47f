// Package aggregator turns the stream of a table into usage: what each entity consumed of
// each resource, hour by hour, exactly.
//
// A Processor adds records of the stream to hourly snapshots in the same table. Every
// snapshot remembers the last record that it holds, so that a record counts once however
// often it comes, and what its counters were then, so that a record that never came is
// seen. [FromStream] converts records of DynamoDB Streams.
//
// A Tail follows the stream: it reads its shards and has a Processor, or what else there is,
// process their records. Of several one works, and the others stand by.
package aggregator
