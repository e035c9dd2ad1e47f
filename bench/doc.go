// Package bench measures dynalimit. Its benchmarks compare a warm acquire with a bare UpdateItem, and the limiter with
// others. Those of contend let processes compete for one bucket. Those of scale simulate thousands of processes in
// virtual time. Those of outage take the store away, and those of keeper load a keeper through its REST API. Those of
// crowd let real processes wait for a bucket that is always short. All print lines that benchstat compares. The program
// report runs them and prints one table. docs/performance.md explains the results.
package bench
