package llm_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/llm"
)

// ledger is what a history of calls must have left behind.
type ledger struct {
	mu       sync.Mutex
	settled  int64 // calls
	estimate int64 // tokens that crashed calls left in the buckets
	doubtful bool  // some give-back may have been lost
}

func (l *ledger) note(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// TestHistories: whatever calls do, and whatever answers are lost, every
// settled call is counted once in both, and nothing else stays: of the limits only what
// crashed calls took.
func TestHistories(t *testing.T) {
	const histories = 150
	denials := map[string]int{}
	for seed := range uint64(histories) {
		virtual(t, func(t *testing.T, w *world) {
			random := rand.New(rand.NewPCG(seed, 7))
			w.org(int64(1+random.IntN(8))*callMicros, 0)
			w.limits(dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 100_000))
			guards := []*llm.Guard{w.guard(both), w.otherProcess()}
			for _, g := range guards {
				w.warm(g)
			}
			l := &ledger{}
			faults := seed%2 == 1
			if faults {
				w.db.SetFaults(flaky(seed))
			}
			var group sync.WaitGroup
			for i := range 12 {
				fate, delay := random.IntN(6), time.Duration(random.IntN(20))*time.Millisecond
				delay += time.Duration(random.IntN(3)) * 1500 * time.Millisecond // records linger for a second
				group.Go(func() {
					<-time.After(delay)
					call(t, guards[i%2], l, fate, denials)
				})
			}
			group.Wait()
			w.db.SetFaults(nil)
			<-time.After(30 * time.Second) // for what was in flight
			w.clock.advance(2 * time.Minute)
			_, err := w.keeper.Sweep(t.Context(), org)
			require.NoError(t, err)

			premium := w.spent("premium")
			require.Equal(t, []int64{l.settled * callMicros, l.settled}, []int64{premium.CostMicros, premium.Requests}, "seed %d", seed)
			require.Empty(t, w.refused)
			w.clock.advance(-2 * time.Minute) // no refill: the buckets as they were left
			_, tpm := w.leftFresh()
			want := 100_000 - l.settled*2_300 - l.estimate
			if l.doubtful || faults {
				require.LessOrEqual(t, tpm, want, "seed %d: a lost give-back stays taken, and nothing is minted", seed)
			} else {
				require.Equal(t, want, tpm, "seed %d", seed)
			}
		})
	}
	t.Log("denials:", denials)
	require.Positive(t, denials["quota"])
	require.Positive(t, denials["limit"])
}

// call makes one call that ends as fate wants.
func call(t *testing.T, g *llm.Guard, l *ledger, fate int, denials map[string]int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := request()
	if fate == 5 {
		r.Estimate.InputTokens = 90_000 // seldom fits
	}
	c, err := g.Start(ctx, r)
	if err != nil {
		l.note(func() {
			switch {
			case errors.Is(err, budget.ErrQuotaExceeded):
				denials["quota"]++
			case errors.Is(err, dynalimit.ErrLimitExceeded):
				denials["limit"]++
			}
			l.doubtful = l.doubtful || errors.Is(err, dynalimit.ErrUnconfirmed)
		})
		return
	}
	<-time.After(5 * time.Millisecond)
	switch fate {
	case 0: // crashes
		l.note(func() { l.estimate += 6_000 })
	case 1: // fails before any use
		if c.Rollback(ctx) != nil {
			l.note(func() { l.doubtful = true })
		}
	default: // is used, by a client that may hang up, and settled until it is
		if fate == 2 {
			cancel()
		}
		for err := errors.New("not yet"); err != nil; {
			if err = c.Settle(ctx, used); err != nil {
				<-time.After(time.Second)
			}
		}
		l.note(func() { l.settled++ })
	}
}

// flaky loses requests and answers of writes, some for long.
func flaky(seed uint64) ddbmem.FaultFunc {
	random := rand.New(rand.NewPCG(seed, 8))
	var mu sync.Mutex
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation != "TransactWriteItems" && r.Operation != "UpdateItem" {
			return ddbmem.Fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		switch random.IntN(12) {
		case 0:
			return ddbmem.Fault{Lose: true}
		case 1:
			return ddbmem.Fault{Drop: true}
		case 2:
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
		case 3:
			return ddbmem.Fault{Before: time.Duration(random.IntN(20)) * time.Millisecond}
		}
		return ddbmem.Fault{}
	}
}
