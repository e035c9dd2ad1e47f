package tests

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// race has four processes make 200 calls at once, on models in turn, and says how many are
// admitted. Requests are slow from then on.
func (s *process) race(entity string, amounts dynalimit.Amounts, models ...string) int64 {
	s.t.Helper()
	s.db.SetFaults(after10ms)
	processes := []*process{s, s.peer(nil), s.peer(nil), s.peer(nil)}
	var admitted atomic.Int64
	var calls sync.WaitGroup
	for i := range 200 {
		calls.Go(func() {
			_, err := processes[i/2%4].limiter.Acquire(s.t.Context(), entity, models[i%len(models)], amounts)
			if err == nil {
				admitted.Add(1)
			} else if !errors.Is(err, dynalimit.ErrLimitExceeded) {
				s.t.Error(err)
			}
		})
	}
	calls.Wait()
	return admitted.Load()
}

// inTraffic has a hundred callers of four processes acquire an amount of a limit for the entity
// key, on models in turn, with others beside it, and give a part of every third back, until they
// are stopped: with latencies, throttling and lost answers. It returns what they were admitted.
func (s *process) inTraffic(limit string, amount, back int64, beside dynalimit.Amounts, models ...string) (admitted *atomic.Int64, stop func()) {
	s.t.Helper()
	var n atomic.Int64
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		f := ddbmem.Fault{Before: 3 * time.Millisecond, After: 2 * time.Millisecond}
		if k := n.Add(1); r.Operation == "UpdateItem" && k%97 == 0 {
			f.Lose = true
		} else if k%89 == 0 {
			f.Error = &ddbmem.Error{Code: "ThrottlingException"}
		}
		return f
	})
	amounts := dynalimit.Amounts{limit: amount}
	maps.Copy(amounts, beside)
	admitted = new(atomic.Int64)
	ended := make(chan struct{})
	var callers sync.WaitGroup
	processes := []*process{s, s.peer(nil), s.peer(nil), s.peer(nil)}
	for i := range 100 {
		callers.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-ended:
					return
				case <-time.After(time.Duration(5000+370*i) * time.Millisecond):
				}
				lease, err := processes[i%4].limiter.Acquire(s.t.Context(), "key", models[(i+k)%len(models)], amounts, dynalimit.WithIgnoreUnknown())
				switch {
				case err == nil:
					admitted.Add(amount)
					if k%3 == 0 && lease.Adjust(s.t.Context(), dynalimit.Amounts{limit: -back}) == nil {
						admitted.Add(-back)
					}
				case errors.Is(err, dynalimit.ErrLimitExceeded), errors.Is(err, dynalimit.ErrUnavailable), errors.Is(err, dynalimit.ErrContended):
				default:
					s.t.Error(err)
				}
			}
		})
	}
	return admitted, func() { close(ended); callers.Wait() }
}
