// Package contend sets processes against each other on one bucket, or a few, and says
// whether they kept to the limit, how fast they were and what it cost:
//
//	go test -run '^$' -bench Contend/1x256 ./contend      # by name: 1x256, 8x64, exhausted
//	go test -run '^$' -bench Contend/flags ./contend -processes 4 -goroutines 32 -latency 1ms
//
// The processes are real ones, which ask ddbmem in this one over HTTP on loopback.
package contend

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/ledger"
	"github.com/dynalimit/dynalimit/bench/internal/program"
)

// settings are a contest.
type settings struct {
	Processes  int           `json:"processes"`
	Goroutines int           `json:"goroutines"` // of each process
	Buckets    int           `json:"buckets"`    // that they share
	For        time.Duration `json:"for"`
	Latency    time.Duration `json:"latency"` // what ddbmem waits before it executes a request
	Start      string        `json:"start"`   // the buckets at the start: full or empty
	Call       string        `json:"call"`    // acquire, which comes back after RetryAfter when denied, or wait
	Burst      int64         `json:"burst"`   // tokens a bucket holds
	Rate       int64         `json:"rate"`    // tokens it regains a second
	Load       float64       `json:"load"`    // calls a second of all together; 0: each goroutine calls again at once
}

// outcome is what a contest came to.
type outcome struct {
	tally
	// values are named in docs/performance.md.
	values program.Values
}

// contend runs one contest.
func contend(ctx context.Context, s settings) (_ *outcome, err error) {
	st, err := openStore(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	all, err := startChildren(ctx, s, st)
	if err != nil {
		return nil, err
	}
	defer all.dismiss()
	before, err := st.entries(ctx)
	if err != nil {
		return nil, err
	}
	meter, began := st.db.Meter(), time.Now()
	sum, err := all.run()
	if err != nil {
		return nil, err
	}
	used := st.db.Meter().Sub(meter)
	after, err := st.entries(ctx)
	if err != nil {
		return nil, err
	}
	var account ledger.Account
	for b, to := 0, time.Now().UnixMilli(); b < len(before); b++ {
		a, err := ledger.Between(before[b], after[b], began.UnixMilli(), to)
		if err != nil {
			return nil, err
		}
		account = account.Plus(a)
	}
	took := latency.Import(sum.Latency).Summary()
	return &outcome{tally: sum, values: program.Values{
		"acquires/s":      float64(sum.Granted) / s.For.Seconds(),
		"p50-ms":          float64(took.P50) / float64(time.Millisecond),
		"p99-ms":          float64(took.P99) / float64(time.Millisecond),
		"failed":          float64(sum.Failed),
		"wcu/op":          used.WriteUnits() / float64(max(1, sum.Granted)),
		"requests/landed": float64(used.Requests()) / float64(max(1, sum.Landed)),
		"callers/landed":  float64(sum.Callers) / float64(max(1, sum.Landed)),
		"used":            account.Used(),
		"above-limit":     max(0, -float64(account.Lost)/1000),
		"miscounted":      float64(account.Admitted)/1000 - float64(sum.Granted),
	}}, nil
}
