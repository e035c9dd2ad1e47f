// Package bench measures dynalimit: its benchmarks compare a warm acquire with
// a bare UpdateItem, and the limiter with others. Its commands are contend, which
// sets processes against each other on one bucket, scale, which simulates
// thousands of them in virtual time, keeper, which loads a keeper through its
// REST API, and report, which runs everything about limits and prints one table.
// docs/performance.md explains the results.
package bench
