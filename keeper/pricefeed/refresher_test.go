package pricefeed

import (
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// imports keeps what it was told to import, and when.
type imports struct {
	mu    sync.Mutex
	lists []prices.List
	times []time.Time
	err   error
}

func (i *imports) Import(_ context.Context, list prices.List, _ budget.PriceImport) (budget.PriceReport, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lists, i.times = append(i.lists, list), append(i.times, time.Now())
	return budget.PriceReport{List: "x"}, i.err
}

// text is a source with a tag.
type text struct {
	mu     sync.Mutex
	body   string
	tag    string
	err    error
	opened int
}

func (s *text) Open(_ context.Context, tag string) (io.ReadCloser, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	if s.err != nil {
		return nil, "", s.err
	}
	if tag != "" && tag == s.tag {
		return nil, "", ErrNotModified
	}
	return io.NopCloser(strings.NewReader(s.body)), s.tag, nil
}

const oneModel = `{"m":{"litellm_provider":"openai","input_cost_per_token":3e-6,"output_cost_per_token":1.2e-5},
	"azure/m":{"litellm_provider":"azure","input_cost_per_token":4e-6,"output_cost_per_token":1.2e-5}}`

func TestRunRefreshesOnASchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper, source := &imports{}, &text{body: oneModel, tag: "1"}
		half := func() float64 { return 0.5 }
		r, err := New(keeper, source, &Options{Every: time.Hour, Jitter: 0.2, Random: half})
		require.NoError(t, err)
		began := time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		<-time.After(3 * time.Hour)
		over := errors.New("over")
		cancel(over)
		require.ErrorIs(t, <-ended, over)
		var waits []time.Duration
		for _, at := range keeper.times {
			waits = append(waits, at.Sub(began))
		}
		assert.Equal(t, []time.Duration{0, 54 * time.Minute, 108 * time.Minute, 162 * time.Minute}, waits)
		for _, list := range keeper.lists {
			require.Len(t, list.Prices, 1, "also what has not changed: other prices may have")
			assert.Equal(t, int64(3_000_000), list.Prices[0].Input, "of the catalog's providers alone")
		}
	})
}

// TestTheWaitAfterFailuresDoublesToTheNextRefreshAtMost, however long it is and however
// many they are.
func TestTheWaitAfterFailuresDoublesToTheNextRefreshAtMost(t *testing.T) {
	for _, tc := range []struct {
		every, retry time.Duration
		waits        map[int]time.Duration // by failures
	}{
		{0, 0, map[int]time.Duration{0: 24 * time.Hour, 1: time.Minute, 2: 2 * time.Minute, 11: 1024 * time.Minute, 12: 24 * time.Hour, 1e9: 24 * time.Hour}},
		{24 * time.Hour, 3 * time.Hour, map[int]time.Duration{1: 3 * time.Hour, 3: 12 * time.Hour, 4: 24 * time.Hour, 22: 24 * time.Hour, 1000: 24 * time.Hour}},
		{time.Hour, math.MaxInt64, map[int]time.Duration{1: time.Hour, 2: time.Hour}},
		{math.MaxInt64, math.MaxInt64 - 1, map[int]time.Duration{1: math.MaxInt64 - 1, 2: math.MaxInt64, 3: math.MaxInt64}},
	} {
		r, err := New(&imports{}, &text{}, &Options{Every: tc.every, RetryAfter: tc.retry, Jitter: -1})
		require.NoError(t, err)
		for failed, want := range tc.waits {
			assert.Equal(t, want, r.waitAfter(failed), "every %v, after %d", tc.every, failed)
		}
	}
	r, err := New(&imports{}, &text{}, &Options{Random: func() float64 { return 0.5 }})
	require.NoError(t, err)
	assert.Equal(t, 24*time.Hour-72*time.Minute, r.waitAfter(0), "a tenth of it is jitter")
}

// TestRefreshesComeOneAfterTheOther, and one that waits for its turn ends with its context.
func TestRefreshesComeOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		source := &text{body: oneModel}
		r, err := New(&imports{}, source, &Options{OnReport: func(context.Context, budget.PriceReport, error) { <-release }})
		require.NoError(t, err)
		first := make(chan error)
		go func() {
			_, err := r.Refresh(t.Context())
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = r.Refresh(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 1, source.opened)
		close(release)
		require.NoError(t, <-first)
		_, err = r.Refresh(t.Context())
		require.NoError(t, err)
	})
}

// slow is a source that answers when its context ends.
type slow struct{}

func (slow) Open(ctx context.Context, _ string) (io.ReadCloser, string, error) {
	<-ctx.Done()
	return nil, "", context.Cause(ctx)
}

func TestARefreshHasATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for timeout, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Second: time.Second} {
			r, err := New(&imports{}, slow{}, &Options{Timeout: timeout})
			require.NoError(t, err)
			began := time.Now()
			_, err = r.Refresh(t.Context())
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, want, time.Since(began))
		}
	})
}

// TestABrokenListLeavesTheLastOneInHand: it is not imported, and its tag is not kept.
func TestABrokenListLeavesTheLastOneInHand(t *testing.T) {
	keeper, source := &imports{}, &text{body: oneModel, tag: "1"}
	r, err := New(keeper, source, nil)
	require.NoError(t, err)
	_, err = r.Refresh(t.Context())
	require.NoError(t, err)
	source.body, source.tag = "<html>", "2"
	_, err = r.Refresh(t.Context())
	require.ErrorIs(t, err, prices.ErrList)
	source.body = oneModel
	_, err = r.Refresh(t.Context())
	require.NoError(t, err)
	assert.Len(t, keeper.lists, 2)
}

func TestRefresherIsRefusedWithoutWhatItNeeds(t *testing.T) {
	keeper, source := &imports{}, &text{}
	_, err := New(keeper, source, &Options{Jitter: math.NaN()})
	require.ErrorAs(t, err, new(*fault.ValidationError))
	for field, try := range map[string]func() error{
		"store":               func() error { _, err := New(nil, source, nil); return err },
		"source":              func() error { _, err := New(keeper, nil, nil); return err },
		"options.every":       func() error { _, err := New(keeper, source, &Options{Every: time.Second}); return err },
		"options.jitter":      func() error { _, err := New(keeper, source, &Options{Jitter: 1.5}); return err },
		"options.retry_after": func() error { _, err := New(keeper, source, &Options{RetryAfter: -1}); return err },
		"options.timeout":     func() error { _, err := New(keeper, source, &Options{Timeout: -1}); return err },
		"refresher":           func() error { return new(Refresher).Run(t.Context()) },
	} {
		var v *fault.ValidationError
		require.ErrorAs(t, try(), &v, field)
		assert.Equal(t, field, v.Field)
	}
}

// TestProcessesThatRefreshTheSameTablesAgree: a price is stored once, and the others find
// nothing to do.
func TestProcessesThatRefreshTheSameTablesAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New()
		defer db.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		var mu sync.Mutex
		accepted, refreshes := 0, 0
		var group sync.WaitGroup
		for i := range 3 {
			keeper, err := budget.New(db.Client(), budget.Tables{}, &budget.Options{Principal: "refresher"})
			require.NoError(t, err)
			defer func() { assert.NoError(t, keeper.Close(context.WithoutCancel(ctx))) }()
			if i == 0 {
				require.NoError(t, keeper.Setup().CreateTables(ctx))
			}
			r, err := New(keeper.Prices(), &text{body: oneModel}, &Options{Every: time.Hour, OnReport: func(_ context.Context, report budget.PriceReport, err error) {
				mu.Lock()
				defer mu.Unlock()
				assert.NoError(t, err)
				accepted, refreshes = accepted+len(report.Accepted), refreshes+1
			}})
			require.NoError(t, err)
			group.Go(func() { assert.ErrorIs(t, r.Run(ctx), context.DeadlineExceeded) })
		}
		group.Wait()
		assert.Equal(t, 1, accepted)
		assert.GreaterOrEqual(t, refreshes, 9)
	})
}

// TestReportsAreTheirCallersOwn: who sorts what was skipped does not touch what others were
// told of the same list.
func TestReportsAreTheirCallersOwn(t *testing.T) {
	keeper, err := budget.New(ddbmem.New().Client(), budget.Tables{}, &budget.Options{Principal: "prices@example.com"})
	require.NoError(t, err)
	defer func() { assert.NoError(t, keeper.Close(context.Background())) }()
	require.NoError(t, keeper.Setup().CreateTables(t.Context()))
	const list = `[{"model_id":"m","input_usd_micros_per_1m":3,"output_usd_micros_per_1m":12},{"model_id":"n","input_usd_micros_per_1m":-2}]`
	r, err := New(keeper.Prices(), &text{body: list, tag: "1"}, nil)
	require.NoError(t, err)
	var refreshes sync.WaitGroup
	for range 2 {
		refreshes.Go(func() {
			report, err := r.Refresh(t.Context())
			if assert.NoError(t, err) && assert.Len(t, report.Skipped, 1) {
				assert.Equal(t, "n", report.Skipped[0].Model)
				report.Skipped[0].Model = "mine"
			}
		})
	}
	refreshes.Wait()
}

// A source, a store or a hook that does not return ends one refresh of Run. A caller of Refresh
// has the panic.
func TestRefreshThatDoesNotReturnIsMadeAgain(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reports := 0
				r, err := New(&imports{}, &text{body: oneModel}, &Options{OnReport: func(context.Context, budget.PriceReport, error) {
					if reports++; reports == 1 {
						end()
					}
				}})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				require.ErrorIs(t, r.Run(ctx), context.DeadlineExceeded)
				assert.Equal(t, 2, reports, "it was made again after a minute")
			})
		})
	}
	r, err := New(&imports{}, &text{body: oneModel}, &Options{OnReport: func(context.Context, budget.PriceReport, error) { panic("boom") }})
	require.NoError(t, err)
	for range 2 {
		assert.PanicsWithValue(t, "boom", func() { _, _ = r.Refresh(t.Context()) })
	}
}
