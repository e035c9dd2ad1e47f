package llm_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

// endings hears how calls end.
type endings struct {
	mu  sync.Mutex
	all []llm.Settled
}

func (e *endings) hear(o *llm.Options) {
	o.OnSettled = func(s llm.Settled) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, s)
	}
}

// one is what was heard, which must be one thing.
func (e *endings) one(t *testing.T) llm.Settled {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Len(t, e.all, 1)
	return e.all[0]
}

// TestFailedFollowsTheTableOfOutcomes: one row each. The estimate is 2,000 tokens in and 4,000
// out, at 3 and 15 µ$.
func TestFailedFollowsTheTableOfOutcomes(t *testing.T) {
	const (
		prompt = 2_000 * 375 / 100 // of money, one that nobody reported costs what the dearest class does
		whole  = prompt + 4_000*15
	)
	chunks := func(m *llm.Meter) { m.Add(prices.Tokens{Output: 300}) }
	for name, row := range map[string]struct {
		unsent   bool
		seen     func(*llm.Meter)
		outcome  llm.Outcome
		rpm, tpm int64 // that stay taken
		micros   int64
		status   string
		source   llm.Source
		hangsUp  bool
		bad      bool
	}{
		"never written":                          {unsent: true, outcome: llm.Outcome{Cut: true}},
		"a redirect":                             {outcome: llm.Outcome{Status: 302}},
		"refused where failures do not count":    {outcome: llm.Outcome{Status: 429}},
		"refused where they do":                  {outcome: llm.Outcome{Status: 429, Counts: true}, rpm: 1, status: llm.StatusError, source: llm.Reported},
		"refused after the client left":          {outcome: llm.Outcome{Status: 503, Counts: true}, hangsUp: true, rpm: 1, status: llm.StatusError, source: llm.Reported},
		"filtered after its prompt was read":     {outcome: llm.Outcome{Status: 400, Processed: true}, rpm: 1, tpm: 2_000, micros: prompt, status: llm.StatusError, source: llm.Estimated},
		"written, and no answer":                 {rpm: 1, tpm: 2_000, micros: prompt, status: llm.StatusError, source: llm.Estimated},
		"written, and the client left":           {hangsUp: true, rpm: 1, tpm: 2_000, micros: prompt + 500*15, status: llm.StatusCut, source: llm.Estimated},
		"an error event before the first token":  {outcome: llm.Outcome{Status: 200, Event: 529}, rpm: 1, tpm: 2_000, micros: prompt, status: llm.StatusError, source: llm.Estimated},
		"an error event in the middle":           {seen: chunks, outcome: llm.Outcome{Status: 200, Event: 529}, rpm: 1, tpm: 2_300, micros: prompt + 300*15, status: llm.StatusError, source: llm.Estimated},
		"cut in the middle":                      {seen: chunks, outcome: llm.Outcome{Status: 200, Cut: true}, rpm: 1, tpm: 2_300, micros: prompt + 800*15, status: llm.StatusCut, source: llm.Estimated},
		"cut after the prompt was reported":      {seen: func(m *llm.Meter) { m.Set(prices.Tokens{Input: 1_500, Output: 1}) }, outcome: llm.Outcome{Status: 200, Cut: true}, rpm: 1, tpm: 1_501, micros: 1_500*3 + 501*15, status: llm.StatusCut, source: llm.Reported},
		"cut, counted by hand":                   {seen: func(m *llm.Meter) { m.Add(prices.Tokens{Input: 1_500, Output: 1}) }, outcome: llm.Outcome{Status: 200, Cut: true}, rpm: 1, tpm: 1_501, micros: 1_500*3 + 501*15, status: llm.StatusCut, source: llm.Metered},
		"an answer without usage":                {outcome: llm.Outcome{Status: 200}, rpm: 1, tpm: 6_000, micros: whole, status: llm.StatusOK, source: llm.Estimated},
		"a switch of protocols, read by nobody":  {outcome: llm.Outcome{Status: 101}, rpm: 1, tpm: 6_000, micros: whole, status: llm.StatusOK, source: llm.Estimated},
		"a count that cannot be: the estimate's": {seen: func(m *llm.Meter) { m.Add(prices.Tokens{Output: -1}) }, outcome: llm.Outcome{Status: 200}, bad: true, rpm: 1, tpm: 6_000, micros: whole, status: llm.StatusOK, source: llm.Estimated},
	} {
		t.Run(name, func(t *testing.T) {
			w, heard := memWorld(t), &endings{}
			w.limits(dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 100_000), dynalimit.PerDay("usd", 1_000_000))
			g := w.guard(both, heard.hear, func(o *llm.Options) {
				o.Limits = map[string]llm.Measure{"rpm": llm.Requests, "tpm": llm.TotalTokens, "usd": llm.Cost(prices.CatalogList())}
			})
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			c := w.start(g, request())
			if row.seen != nil {
				row.seen(c.Meter())
			}
			if !row.unsent {
				c.Sent()
			}
			if row.hangsUp {
				hangUp()
			}
			err := c.Failed(ctx, row.outcome)
			assert.Equal(t, row.bad, err != nil, err)
			require.NoError(t, c.Failed(ctx, llm.Outcome{Status: 200}), "it has ended")
			require.NoError(t, c.Rollback(ctx), "as a deferred one")
			require.NoError(t, g.Close(t.Context()))
			left := map[string]int64{}
			for _, s := range c.Lease().Statuses() {
				left[s.Limit.Name] = s.Limit.Burst - s.Remaining
			}
			assert.Equal(t, map[string]int64{"rpm": row.rpm, "tpm": row.tpm, "usd": row.micros}, left)
			s := heard.one(t)
			assert.Equal(t, []any{row.status, row.source, row.micros, premiumModel, user}, []any{s.Status, s.Source, s.CostMicros, s.Model, s.Request.Entity})
			assert.Equal(t, row.tpm, s.Tokens.Input+s.Tokens.Output)
			assert.Equal(t, c.RequestID, s.Request.RequestID)
			assert.Len(t, s.Statuses, 3)
			assert.NoError(t, s.Err)
		})
	}
}

// TestNothingGivesBackWhatWasSent, but an answer that says that nothing is billed.
func TestNothingGivesBackWhatWasSent(t *testing.T) {
	for name, end := range map[string]func(*llm.Guard, *llm.Call) error{
		"Rollback": func(_ *llm.Guard, c *llm.Call) error { c.Sent(); return c.Rollback(context.Background()) },
		"Do": func(g *llm.Guard, c *llm.Call) error {
			if err := c.Rollback(context.Background()); err != nil { // another call is made
				return err
			}
			err := g.Do(context.Background(), request(), func(_ context.Context, c *llm.Call) (llm.Usage, error) {
				c.Sent()
				return llm.Usage{}, errFailed
			})
			if !errors.Is(err, errFailed) {
				return errors.New("the function's error is lost")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := memWorld(t)
			g := w.guard(both)
			require.NoError(t, end(g, w.start(g, request())))
			require.NoError(t, g.Close(t.Context()))
			rpm, tpm := w.left()
			assert.Equal(t, []int64{59, 98_000}, []int64{rpm, tpm})
			assert.Equal(t, int64(2_000*3), w.spent("premium").CostMicros)
		})
	}
}

var errFailed = errors.New("failed")

// TestSettlingHoldsNobodyUp: a store that is silent after the call delays neither its answer nor
// the end of its stream, and what it could not be told is told when it answers.
func TestSettlingHoldsNobodyUp(t *testing.T) {
	for name, end := range map[string]func(*llm.Call) error{
		"SettleSoon":  func(c *llm.Call) error { return c.SettleSoon(context.Background(), used) },
		"Meter.Close": func(c *llm.Call) error { c.Meter().Set(used.Tokens); return c.Meter().Close(context.Background()) },
		"Failed": func(c *llm.Call) error {
			c.Meter().Set(used.Tokens)
			c.Sent()
			return c.Failed(context.Background(), llm.Outcome{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				heard := &endings{}
				g := w.guard(both, heard.hear)
				w.warm(g)
				heard.all = nil
				c := w.start(g, request())
				w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} })
				began := time.Now()
				require.NoError(t, end(c))
				require.NoError(t, c.Rollback(context.Background()))
				require.NoError(t, c.Settle(context.Background(), used))
				assert.Zero(t, time.Since(began))
				<-time.After(5 * time.Second)
				w.recovers()
				require.NoError(t, g.Close(t.Context()))
				s := heard.one(t)
				assert.Equal(t, used.Tokens, s.Tokens)
				assert.ErrorIs(t, s.Err, dynalimit.ErrUnconfirmed, "no answer told whether it was given back")
				assert.Empty(t, w.refused)
			})
		})
	}
}

// TestGivingBackHoldsNobodyUp: nor does a call that a provider refused wait for a silent store.
func TestGivingBackHoldsNobodyUp(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		heard := &endings{}
		g := w.guard(both, heard.hear)
		c := w.start(g, request())
		w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} })
		c.Sent()
		began := time.Now()
		require.NoError(t, c.Failed(t.Context(), llm.Outcome{Status: 529}))
		require.NoError(t, c.Rollback(t.Context()))
		assert.Zero(t, time.Since(began))
		<-time.After(5 * time.Second)
		w.recovers()
		require.NoError(t, g.Close(t.Context()))
		assert.Equal(t, prices.Tokens{}, heard.one(t).Tokens)
		require.ErrorIs(t, c.Settle(t.Context(), used), llm.ErrEnded)
	})
}

// TestCloseAgainWaitsForWhatTheFirstDidNot: a lease that is being settled is not forgotten.
func TestCloseAgainWaitsForWhatTheFirstDidNot(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		heard := &endings{}
		g := w.guard(both, heard.hear)
		c := w.start(g, request())
		w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{After: 500 * time.Millisecond} })
		require.NoError(t, c.SettleSoon(t.Context(), used))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, g.Close(ctx), context.DeadlineExceeded)
		require.NoError(t, g.Close(t.Context()))
		assert.Equal(t, used.Tokens, heard.one(t).Tokens)
	})
}

// TestSettleSoonChargesWhatIsAboveAtOnce, and says what it could not charge.
func TestSettleSoonChargesWhatIsAboveAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		heard := &endings{}
		g := w.guard(both, heard.hear)
		c := w.start(g, request())
		dear := llm.Usage{Tokens: prices.Tokens{Input: 20_000}}
		w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}}
		})
		var unsettled *llm.UnsettledError
		require.ErrorAs(t, c.SettleSoon(t.Context(), dear), &unsettled)
		require.ErrorIs(t, unsettled.Lease, dynalimit.ErrUnconfirmed)
		w.db.SetFaults(nil)
		require.NoError(t, c.SettleSoon(t.Context(), dear), "again")
		_, tpm := w.left()
		assert.Equal(t, int64(80_000), tpm)
		require.ErrorIs(t, heard.one(t).Err, dynalimit.ErrUnconfirmed, "it is told once")
		assert.Error(t, c.SettleSoon(t.Context(), llm.Usage{Tokens: prices.Tokens{Input: -1}}))
		assert.Error(t, (*llm.Call)(nil).SettleSoon(t.Context(), used))
		assert.Error(t, (*llm.Call)(nil).Failed(t.Context(), llm.Outcome{}))
	})
}

// TestLeaseEndedByHand: a call whose lease somebody else ended is told of, and its guard closes.
func TestLeaseEndedByHand(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		heard := &endings{}
		g := w.guard(both, heard.hear)
		c := w.start(g, request())
		require.NoError(t, c.Lease().Rollback(t.Context()))
		require.NoError(t, c.SettleSoon(t.Context(), used))
		began := time.Now()
		require.NoError(t, g.Close(t.Context()))
		assert.Less(t, time.Since(began), 5*time.Second)
		assert.NoError(t, heard.one(t).Err)
	})
}
