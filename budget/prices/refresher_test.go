package prices

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// imports keeps what it was told to import, and when.
type imports struct {
	mu    sync.Mutex
	lists []budget.PriceList
	times []time.Time
	err   error
}

func (i *imports) ImportPrices(_ context.Context, list budget.PriceList, _ budget.PriceImport) (budget.PriceReport, error) {
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

const oneModel = `[{"id":"openai","models":[{"id":"m","prices":{"input_mtok":3,"output_mtok":12}}]},
	{"id":"azure","models":[{"id":"m","prices":{"input_mtok":4,"output_mtok":12}}]}]`

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

func TestRunTriesAgainSoonerAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &text{err: errors.New("no route")}
		keeper := &imports{}
		var failures int
		r, err := New(keeper, source, &Options{Every: time.Hour, Jitter: -1, OnReport: func(_ context.Context, _ budget.PriceReport, err error) {
			if err != nil {
				failures++
			}
		}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 16*time.Minute)
		defer cancel()
		require.ErrorIs(t, r.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, 5, source.opened, "at 0, 1, 3, 7 and 15 minutes")
		assert.Equal(t, 5, failures)
		assert.Empty(t, keeper.lists, "a list that cannot be loaded changes nothing")

		source.body, source.err, keeper.err = oneModel, nil, budget.ErrConflict
		_, err = r.Refresh(t.Context())
		require.ErrorIs(t, err, budget.ErrConflict)
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
	require.ErrorAs(t, err, new(*budget.PriceListError))
	source.body = oneModel
	_, err = r.Refresh(t.Context())
	require.NoError(t, err)
	assert.Len(t, keeper.lists, 2)
}

func TestRefresherIsRefusedWithoutWhatItNeeds(t *testing.T) {
	keeper, source := &imports{}, &text{}
	for field, try := range map[string]func() error{
		"keeper":              func() error { _, err := New(nil, source, nil); return err },
		"source":              func() error { _, err := New(keeper, nil, nil); return err },
		"options.every":       func() error { _, err := New(keeper, source, &Options{Every: time.Second}); return err },
		"options.jitter":      func() error { _, err := New(keeper, source, &Options{Jitter: 1.5}); return err },
		"options.retry_after": func() error { _, err := New(keeper, source, &Options{RetryAfter: -1}); return err },
		"refresher":           func() error { return new(Refresher).Run(t.Context()) },
	} {
		var v *budget.ValidationError
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
				require.NoError(t, keeper.CreateTables(ctx))
			}
			r, err := New(keeper, &text{body: oneModel}, &Options{Every: time.Hour, OnReport: func(_ context.Context, report budget.PriceReport, err error) {
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
