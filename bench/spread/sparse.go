package spread

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
	"github.com/dynalimit/dynalimit/ddbmem"
)

const (
	// rarely is the interval between two calls of a rare key: more than the TTL of a configuration.
	rarely = 70 * time.Second
	// roundTrip is the time of a request in virtual time.
	roundTrip = 5 * time.Millisecond
)

// callRarely calls keys in virtual time, each every 70 s, in a warm process. It returns the read and write
// units of a call, and its median time in round trips. It must run in a bubble of testing/synctest.
func callRarely(ctx context.Context, keys, calls int) (program.Values, error) {
	db := ddbmem.New()
	defer db.Close()
	if err := subject.CreateBuckets(ctx, db.Client(), dynalimit.PerSecond(subject.Limit, 1000), keys, 0); err != nil {
		return nil, err
	}
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: roundTrip} })
	limiter, _, err := subject.Open(db.Client(), nil)
	if err != nil {
		return nil, err
	}
	all := func(took latency.Histogram) error {
		for key := range keys {
			if !program.Pause(ctx, rarely/time.Duration(keys)) {
				return ctx.Err()
			}
			began := time.Now()
			if _, err := limiter.Acquire(ctx, subject.Entity(key), subject.Resource, subject.One); err != nil {
				return err
			}
			took.Record(time.Since(began))
		}
		return nil
	}
	if err := all(latency.New()); err != nil {
		return nil, err
	}
	before, took := db.Meter(), latency.New()
	for range calls {
		if err := all(took); err != nil {
			return nil, err
		}
	}
	used, n := db.Meter().Sub(before), float64(keys*calls)
	return program.Values{
		"rcu/op": used.ReadUnits() / n, "wcu/op": used.WriteUnits() / n,
		"trips": float64(took.Summary().P50) / float64(roundTrip),
	}, limiter.Close(ctx)
}
