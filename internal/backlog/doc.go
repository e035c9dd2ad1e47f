// Package backlog accounts for tokens whose debit is not certain: what a lease
// holds of a bucket while DynamoDB does not answer, what the bucket is owed and
// when that is charged, and the queue by which a process admits on its own.
//
// A Holding is what one level of a lease has of one limit. Of what was used, it
// tells apart
//
//   - held: surely debited,
//   - owed: surely not debited yet, and part of a Charge that will be written,
//   - doubt: perhaps debited; no answer told,
//   - gone: debited in a bucket that was deleted since.
//
// A give-back comes out of owed, then out of held, and never out of doubt: to
// pay back what was perhaps never taken would mint tokens. So for every bucket,
// at every time,
//
//	used − doubt ≤ charged + owed ≤ used + lost
//
// where lost is doubt that the caller no longer uses: perhaps debited, and never
// given back. The exhaustive test of this package visits every order of takes,
// corrections, flushes, lost answers and rollbacks of small buckets.
//
// The package is pure but for the mutex of a Charge: time is an argument,
// amounts are millitokens, times milliseconds.
package backlog
