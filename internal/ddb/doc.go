// Package ddb is the part of DynamoDB access that limiter and budget share. It has one meaning of every SDK
// error (Classify), one backoff between tries (Backoff, Sleep), one clock corrected by DynamoDB's (Clock),
// one way to read and delete many items (Batches), one view of whether a table answers at all (Breaker), and
// one client that joins them (Watch).
//
// outage.go decides, with time as an argument. breaker.go has the state and reports its changes. prober.go is
// the one goroutine: an outage starts it, and the first answer ends it.
package ddb
