// Package backlog does the accounting for outages: a lease's balance of a bucket, and the queues that admit a
// process's calls while DynamoDB does not answer.
//
// The law is: tokens return to a bucket only if an answered write took them from it, and they return once. A
// Holding is the balance of one limit at one level of a lease:
//
//   - held: taken by the bucket,
//   - counted: admitted or used without the bucket, and added to its counter alone,
//   - doubt: perhaps charged; the write got no answer,
//   - gone: taken from a bucket that was deleted since.
//
// Only held tokens are given back. The exhaustive test of this package visits every order of takes,
// corrections, outages, lost answers, deletions and writes of pending updates, in small buckets. For each
// rule it shows a failure without it.
//
// The package is pure except for the mutex of the Queues: time is an argument, amounts are millitokens, times
// milliseconds.
package backlog
