// Package backlog is the arithmetic of what happens while DynamoDB does not answer: what
// a lease has of a bucket, and the queues by which a process admits on its own.
//
// The law is: what goes back to a bucket's tokens was taken from them by a write that was
// answered, and goes back once. A Holding is what one level of a lease has of one limit:
//
//   - held: taken by the bucket,
//   - counted: admitted or used without the bucket, and told to its counter alone,
//   - doubt: perhaps charged; no answer told,
//   - gone: taken from a bucket that was deleted since.
//
// Only what is held is given back. The exhaustive test of this package visits every order
// of takes, corrections, outages, lost answers, deletions and writes of what waits, in
// small buckets, and shows for each rule what breaks without it.
//
// The package is pure but for the mutex of the Queues: time is an argument, amounts are
// millitokens, times milliseconds.
package backlog
