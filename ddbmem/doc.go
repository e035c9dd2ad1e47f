// Package ddbmem is a DynamoDB in process, behind the real SDK client.
//
// New makes an empty database; its Client is an ordinary *dynamodb.Client whose
// requests are answered in the process, so that production code, its expressions
// and its marshalling run unchanged with nothing installed. A DB is an
// aws.HTTPClient for an SDK configuration of your own, and an http.Handler for
// clients in any language, region and credentials.
//
// For tests it takes a clock (WithClock), injects faults (DB.SetFaults), shows
// every committed write in order (DB.OnWrite), meters capacity as AWS counts it
// (DB.Meter), logs requests (WithLog) and expires items on demand
// (DB.ExpireNow). A latency waits on a timer, so tests can run in a
// testing/synctest bubble.
//
// # What it does
//
// Tables with global secondary indexes, deletion protection, time to live and
// streams: CreateTable, UpdateTable, DescribeTable, DeleteTable, ListTables,
// UpdateTimeToLive, DescribeTimeToLive. Whether point-in-time recovery is on:
// UpdateContinuousBackups, DescribeContinuousBackups. Items: GetItem, PutItem, UpdateItem, DeleteItem, Query,
// Scan with segments, BatchGetItem, BatchWriteItem, TransactGetItems,
// TransactWriteItems with client request tokens. Streams: ListStreams,
// DescribeStream, GetShardIterator, GetRecords. Condition, update, projection,
// key condition and filter expressions are whole, with DynamoDB's reserved words,
// limits and messages. Numbers are exact decimals of 38 digits.
//
// # Gaps
//
// Whatever is not done is refused with a ValidationException that begins "ddbmem
// does not support", never ignored:
//
//   - local secondary indexes
//   - the legacy parameters (AttributesToGet, Expected, AttributeUpdates,
//     ConditionalOperator, KeyConditions, QueryFilter, ScanFilter)
//   - tags, backups and restores, PartiQL, imports and exports, global tables, Kinesis
//     streams, contributor insights, resource policies, auto scaling, DescribeLimits,
//     DescribeEndpoints
//   - server-side encryption settings, on-demand and warm throughput settings
//
// Where it is simpler than DynamoDB:
//
//   - Every read is consistent, of indexes too; one that asks for less pays less.
//   - Tables and indexes are ACTIVE at once, a deleted table is gone at once.
//   - Throughput is not limited unless WithPartitions limits that of each key,
//     transactions never conflict, TTL is enabled at once: inject ThrottlingException, ProvisionedThroughputExceededException,
//     TransactionConflictException and the like with SetFaults.
//   - Expired items go when ExpireNow is called, or at each request WithExpiry.
//   - A stream has one shard until SplitStream is called. Its records are there as
//     soon as the write is answered.
//   - Signatures are not checked; all credentials and regions see the same tables,
//     whose ARNs are of us-east-1 and account 000000000000.
//   - A table's item count and size are exact and current.
//   - Capacity of tables with provisioned throughput is described, not enforced.
//   - The combined size of placeholders (2 MB) and the length of attribute names
//     are not limited.
//   - A Scan's order is that of a hash of our own.
//   - A request may be 16 MB long in all; a BatchGetItem answers up to 16 MB and
//     leaves the rest unprocessed.
package ddbmem
