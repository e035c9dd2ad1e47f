// Package bench measures dynalimit: its benchmarks compare a warm acquire with a bare
// UpdateItem, and the limiter with others. Those of contend set processes against each other
// on one bucket, those of scale simulate thousands of them in virtual time, those of outage
// take the store away, and those of keeper load a keeper through its REST API. All print
// lines that benchstat compares. The program report runs them and prints one table.
// docs/performance.md explains the results.
package bench
