package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
)

// task is the order of a process.
type task struct {
	Settings settings
	Endpoint string
	Until    time.Time
}

// event is the begin, the end or the failure of a call.
type event struct {
	Kind   string
	Caller int
	At     time.Time
	Error  string
}

// The kinds of events.
const (
	began  = "began"
	ended  = "ended"
	failed = "failed"
)

// runTask is the main function of a process. Its callers make calls one after another until the task's end, and
// it sends each begin, end and failure to the parent. Then it closes its limiter.
func runTask(ctx context.Context, orders *json.Decoder, answers *json.Encoder) error {
	var t task
	if err := orders.Decode(&t); err != nil {
		return err
	}
	limiter, _, err := subject.Open(program.NewClient(t.Endpoint, nil), nil)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	for caller := range t.Settings.Callers {
		group.Go(func() {
			for time.Now().Before(t.Until) {
				t.Settings.makeCall(ctx, limiter, func(kind string, err error) {
					e := event{Kind: kind, Caller: caller, At: time.Now()}
					if err != nil {
						e.Error = err.Error()
					}
					mu.Lock()
					defer mu.Unlock()
					_ = answers.Encode(e) // the parent may have gone
				})
			}
		})
	}
	group.Wait()
	return errors.Join(err, limiter.Close(ctx))
}

// makeCall waits for a lease, holds it for s.Holds, or a random time around that, and settles it to s.Uses. It
// reports the begin and the end of the hold, or a failure. With s.Patience it waits no longer than that.
func (s settings) makeCall(ctx context.Context, limiter *dynalimit.RateLimiter, report func(kind string, err error)) {
	waits, cancel := ctx, func() {}
	if s.Patience > 0 {
		waits, cancel = context.WithTimeout(ctx, s.Patience)
	}
	defer cancel()
	lease, err := limiter.Wait(waits, subject.Entity(0), subject.Resource, dynalimit.Amounts{subject.Limit: s.Amount})
	if err != nil {
		report(failed, err)
		return
	}
	report(began, nil)
	holds := s.Holds
	if s.Random {
		holds = time.Duration(rand.ExpFloat64() * float64(holds))
	}
	program.Pause(ctx, holds)
	report(ended, nil)
	if err := lease.Settle(ctx, dynalimit.Amounts{subject.Limit: s.Uses}); err != nil {
		report(failed, err)
	}
}
