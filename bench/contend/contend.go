// Package contend lets processes compete for one bucket, or a few. It reports whether they kept to the limit,
// how fast they were and the cost:
//
//	go test -run '^$' -bench Contend/1x256 ./contend      # by name: 1x32, 1x256, 8x64, exhausted
//	go test -run '^$' -bench Contend/flags ./contend -processes 4 -goroutines 32 -latency 1ms
//
//	go test -run '^$' -bench Contend/beside ./contend     # beside limiters on Redis, at 5, 1 and 0.5 ms
//
// The processes are real ones, which ask ddbmem in this one over HTTP on loopback, or a
// redis-server, if there is one.
package contend

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/ledger"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// settings describe a contest.
type settings struct {
	Processes  int           `json:"processes"`
	Goroutines int           `json:"goroutines"` // of each process
	Buckets    int           `json:"buckets"`    // shared by all processes
	For        time.Duration `json:"for"`
	Latency    time.Duration `json:"latency"` // delay before ddbmem executes a request
	Start      string        `json:"start"`   // state of the buckets at the start: full or empty
	Call       string        `json:"call"`    // acquire, which is repeated after RetryAfter when denied, or wait
	Burst      int64         `json:"burst"`   // of a bucket, in tokens
	Rate       int64         `json:"rate"`    // refill of a bucket, in tokens a second
	Load       float64       `json:"load"`    // calls a second of all processes; 0: each goroutine calls again at once
	Prefetch   time.Duration `json:"prefetch"`
	Peer       string        `json:"peer"` // another limiter, on Redis: redis_rate or rueidis; "": this library's
}

// outcome is the result of a contest.
type outcome struct {
	tally
	// values are named in docs/performance.md.
	values program.Values
}

// contend runs the limiter in several processes on one ddbmem and returns the sums and ratios of
// their calls. It compares them with the buckets' counters.
func contend(ctx context.Context, s settings) (_ *outcome, err error) {
	db := ddbmem.New()
	defer db.Close()
	endpoint, end, err := program.Serve(ctx, db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	taken := int64(0)
	if s.Start == "empty" {
		taken = s.Burst
	}
	if err := subject.CreateBuckets(ctx, db.Client(), dynalimit.PerSecond(subject.Limit, s.Rate).WithBurst(s.Burst), s.Buckets, taken); err != nil {
		return nil, err
	}
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: s.Latency} })
	all, err := startWorkers(ctx, s, endpoint)
	defer all.dismiss()
	if err != nil {
		return nil, err
	}
	before, err := subject.Read(ctx, db.Client(), s.Buckets)
	if err != nil {
		return nil, err
	}
	round := latency.New()
	if err := measureBare(ctx, endpoint, round); err != nil {
		return nil, err
	}
	meter, began := db.Meter(), time.Now()
	sum, err := all.run()
	if err != nil {
		return nil, err
	}
	used := db.Meter().Sub(meter)
	after, err := subject.Read(ctx, db.Client(), s.Buckets)
	if err != nil {
		return nil, err
	}
	account, err := ledger.Sum(before, after, began.UnixMilli(), time.Now().UnixMilli())
	if err != nil {
		return nil, err
	}
	if err := measureBare(ctx, endpoint, round); err != nil {
		return nil, err
	}
	o, trip := outcomeOf(s, sum), program.Ms(round.Summary().P50)
	maps.Copy(o.values, program.Values{
		"bare-ms":         trip,
		"p50/bare":        program.Ratio(o.values["p50-ms"], trip),
		"wcu/op":          used.WriteUnits() / float64(max(1, sum.Granted)),
		"requests/landed": float64(used.Requests()) / float64(max(1, sum.Landed)),
		"callers/landed":  float64(sum.Callers) / float64(max(1, sum.Landed)),
		"used":            account.Used(),
		"above-limit":     max(0, -float64(account.Lost)/1000),
		"miscounted":      float64(account.Admitted)/1000 - float64(sum.Granted),
	})
	return o, nil
}

// outcomeOf returns the outcome of the processes' tally sum: grants a second of s.For, the median and the 99th
// percentile in ms, and the failures.
func outcomeOf(s settings, sum tally) *outcome {
	took := latency.Import(sum.Latency).Summary()
	return &outcome{tally: sum, values: program.Values{
		"acquires/s": float64(sum.Granted) / s.For.Seconds(),
		"p50-ms":     program.Ms(took.P50),
		"p99-ms":     program.Ms(took.P99),
		"failed":     float64(sum.Failed),
	}}
}

// contendOnRedis runs the load of s with the limiter s.Peer on the Redis at address, and returns the sums of
// the calls.
func contendOnRedis(ctx context.Context, s settings, address string) (*outcome, error) {
	all, err := startWorkers(ctx, s, address)
	defer all.dismiss()
	if err != nil {
		return nil, err
	}
	sum, err := all.run()
	if err != nil {
		return nil, err
	}
	return outcomeOf(s, sum), nil
}
