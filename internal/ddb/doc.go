// Package ddb is what limiter and budget share about talking to DynamoDB: one
// meaning of every SDK error (Classify), one backoff between tries (Backoff,
// Sleep), one clock corrected by DynamoDB's (Clock), one way to read and delete
// many items (Batches), one view of whether a table
// answers at all (Breaker), and one client that joins them (Watch).
//
// outage.go decides, with time as an argument; breaker.go keeps the state and
// tells of changes; prober.go is the one goroutine, which an outage starts and
// the first answer ends.
package ddb
