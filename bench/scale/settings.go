// Package scale simulates thousands of processes on one bucket in virtual time. It runs the limiter's own
// code on ddbmem, behind a latency and a partition that throttles like DynamoDB's, beyond 1,000 write and
// 3,000 read units a second. Its benchmarks are named fleets, and one by flags:
//
//	go test -run '^$' -bench Scale/A ./scale             # A, A-1s, A-250ms, A2, B, C, crowd, D, F
//	go test -run '^$' -bench Scale/flags ./scale         # 1,000 processes offering 0.3 calls a second each to 200/s
//	go test -run '^$' -bench Scale/flags ./scale -processes 10000 -call wait -patience 1s
//	go test -run '^$' -bench Scale/F-real ./scale        # in real time: B-real, F-real
package scale

import "time"

// settings describe a fleet of processes on one bucket, and the store.
type settings struct {
	processes int
	each      float64       // calls a second of each process, at random instants
	rate      int64         // tokens a second of the one bucket; a call takes one
	burst     int64         // of the bucket, in tokens
	call      string        // acquire: once; retry: again after RetryAfter; wait
	patience  time.Duration // time after which retry and wait give up
	warmUp    time.Duration // before the measured time
	lasting   time.Duration // measured
	latency   time.Duration // mean round trip to the store
	spread    float64       // random variation of a trip, each way, as a share
	partition float64       // write units a second of the bucket's partition; 0: no bound
	reads     float64       // its read units a second; 0: no bound
	holds     float64       // burst in seconds of unused throughput; DynamoDB's may be 300
	timeout   time.Duration // Options.Timeout; 0: its default
	prefetch  time.Duration // Options.Prefetch; 0: none
	start     string        // the bucket at the start: empty, full, or part: three fifths full
	real      bool          // in real time; the machine must keep up
}
