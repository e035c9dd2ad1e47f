package keeper

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// process is what one process does beside requests, in virtual time.
type process struct {
	*Service
	db  *ddbmem.DB
	cut atomic.Bool // it reaches DynamoDB no more
	log bytes.Buffer
}

// Do implements aws.HTTPClient.
func (p *process) Do(r *http.Request) (*http.Response, error) {
	if p.cut.Load() {
		return nil, errors.New("connection refused")
	}
	return p.db.Do(r)
}

func newProcess(t *testing.T, db *ddbmem.DB) *process {
	t.Helper()
	p := &process{db: db}
	client := db.Client(func(o *dynamodb.Options) { o.HTTPClient = p })
	repo, err := dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{Principal: "keeper"})
	require.NoError(t, err)
	keeper, err := budget.New(client, budget.Tables{}, &budget.Options{Principal: "keeper"})
	require.NoError(t, err)
	keys, err := credentials.NewKeySet(nil, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	store, err := credentials.New(client, "control", &credentials.Options{Keys: keys, Principal: "keeper"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, keeper.Close(context.WithoutCancel(t.Context()))) })
	require.NoError(t, keeper.Setup().CreateTables(t.Context()))
	require.NoError(t, repo.CreateTable(t.Context()))
	p.Service = &Service{
		config: Default(), keeper: keeper, store: store, metrics: newMetrics(time.Now), now: time.Now,
		parts: Parts{Client: client, Repository: repo, Logger: slog.New(slog.NewTextHandler(&p.log, nil))},
	}
	return p
}

// says is what the metrics say of a series.
func (p *process) says(series string) string {
	var text bytes.Buffer
	p.metrics.writeAll(&text, readings{ready: true})
	_, rest, _ := strings.Cut(text.String(), "\n"+series+" ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// elapse lets virtual time pass.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestOneOfThreeSweeps: of processes on the same tables one sweeps, and never two: also when
// it is cut off, or ends. Another takes over, and all of them end when they are told to.
func TestOneOfThreeSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New()
		t.Cleanup(db.Close)
		var all []*process
		var ends []context.CancelFunc
		var running sync.WaitGroup
		for range 3 {
			p := newProcess(t, db)
			ctx, end := context.WithCancel(t.Context())
			running.Go(func() { p.sweepIfLeader(ctx) })
			all, ends = append(all, p), append(ends, end)
		}
		leading := func() (leader int) {
			leader = -1
			for i, p := range all {
				if p.says("dynalimit_keeper_sweeping") == "1" {
					require.Equal(t, -1, leader, "two sweep")
					leader = i
				}
			}
			return leader
		}
		// until is when another process sweeps, with a look each second.
		until := func(other func(int) bool) (int, time.Duration) {
			for began := time.Now(); time.Since(began) < 5*time.Minute; elapse(time.Second) {
				if i := leading(); i >= 0 && other(i) {
					return i, time.Since(began)
				}
			}
			require.Fail(t, "nobody sweeps")
			return 0, 0
		}
		first, _ := until(func(int) bool { return true })
		for range 600 {
			elapse(time.Second)
			require.Equal(t, first, leading(), "it keeps the lease")
		}
		assert.Equal(t, "11", all[first].says(`dynalimit_keeper_sweeps_total{result="ok"}`), "once a minute")
		for _, p := range all {
			assert.Empty(t, p.log.String(), "that another sweeps is no error")
		}

		all[first].cut.Store(true) // as a process that was killed
		second, after := until(func(i int) bool { return i != first })
		assert.LessOrEqual(t, after, 3*time.Minute, "a lease of a minute, and a look each minute")
		all[first].cut.Store(false)

		ends[second]()
		third, after := until(func(i int) bool { return i != second })
		assert.LessOrEqual(t, after, 2*time.Minute)
		assert.NotEqual(t, second, third)
		assert.Empty(t, all[second].log.String(), "it was told to end")
		for _, end := range ends {
			end()
		}
		running.Wait()
		assert.Equal(t, -1, leading())
	})
}

// denied are requests that the role may not make.
func denied(which func(*ddbmem.Request) bool) func(*ddbmem.Request) ddbmem.Fault {
	return func(r *ddbmem.Request) ddbmem.Fault {
		if which(r) {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	}
}

// TestSweepsThatFailAreTold: the log and the metrics say so, nothing is swept, and the next
// sweep that goes well ends that.
func TestSweepsThatFailAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New()
		t.Cleanup(db.Close)
		p := newProcess(t, db)
		db.SetFaults(denied(func(r *ddbmem.Request) bool {
			return r.Operation == "Query" && r.Table == "usage"
		}))
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.sweepIfLeader(ctx) })
		elapse(90 * time.Second)
		assert.Equal(t, []string{"2", "0", ""}, []string{
			p.says(`dynalimit_keeper_sweeps_total{result="failed"}`), p.says(`dynalimit_keeper_sweeps_total{result="ok"}`), p.says("dynalimit_keeper_sweep_lag_seconds"),
		})
		db.SetFaults(nil)
		elapse(time.Minute)
		assert.Equal(t, "1", p.says(`dynalimit_keeper_sweeps_total{result="ok"}`))
		assert.Equal(t, "30", p.says("dynalimit_keeper_sweep_lag_seconds"))
		end()
		running.Wait()
		assert.Equal(t, 2, strings.Count(p.log.String(), `msg="keeper: sweep"`), p.log.String())
	})
}

// TestALeaseThatCannotBeTakenIsTold: nobody sweeps then.
func TestALeaseThatCannotBeTakenIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New()
		t.Cleanup(db.Close)
		p := newProcess(t, db)
		db.SetFaults(denied(func(r *ddbmem.Request) bool {
			return r.Table == "limits"
		}))
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.sweepIfLeader(ctx) })
		elapse(90 * time.Second)
		end()
		running.Wait()
		assert.Equal(t, 2, strings.Count(p.log.String(), `msg="keeper: sweep"`), p.log.String())
		assert.Equal(t, []string{"0", "0"}, []string{p.says("dynalimit_keeper_sweeping"), p.says(`dynalimit_keeper_sweeps_total{result="ok"}`)})
	})
}

// listOf is a price list.
type listOf string

// Open implements pricefeed.Source.
func (l listOf) Open(context.Context, string) (io.ReadCloser, string, error) {
	if l == "" {
		return nil, "", errors.New("it is gone")
	}
	return io.NopCloser(strings.NewReader(string(l))), "", nil
}

// TestRefreshesAreReported: what a list brought, and what of it was held back, is in the
// metrics and in the log; a list that is gone is a failure, and is asked for again.
func TestRefreshesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New()
		t.Cleanup(db.Close)
		p := newProcess(t, db)
		p.parts.Prices = listOf(`[
			{"model_id": "gpt-4o-mini", "input_usd_micros_per_1m": 180000, "output_usd_micros_per_1m": 600000},
			{"model_id": "gpt-5", "input_usd_micros_per_1m": 125000000, "output_usd_micros_per_1m": 10000000}]`)
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.refreshPrices(ctx) })
		synctest.Wait()
		assert.Equal(t, "1", p.says(`dynalimit_keeper_price_refreshes_total{result="ok"}`))
		assert.Equal(t, "1", p.says("dynalimit_keeper_prices_accepted_total"))
		assert.Equal(t, "1", p.says("dynalimit_keeper_prices_held"))
		assert.Contains(t, p.log.String(), `msg="pricefeed: held back" model=gpt-5`)
		elapse(21 * time.Hour)
		assert.Equal(t, "1", p.says(`dynalimit_keeper_price_refreshes_total{result="ok"}`), "at most a tenth of a day early")
		elapse(3 * time.Hour)
		assert.Equal(t, "2", p.says(`dynalimit_keeper_price_refreshes_total{result="ok"}`))
		end()
		running.Wait()

		gone := newProcess(t, db)
		gone.parts.Prices = listOf("")
		ctx, end = context.WithCancel(t.Context())
		running.Go(func() { gone.refreshPrices(ctx) })
		elapse(10 * time.Minute)
		end()
		running.Wait()
		assert.Equal(t, "4", gone.says(`dynalimit_keeper_price_refreshes_total{result="failed"}`), "after 1, 2 and 4 minutes")
		assert.Contains(t, gone.log.String(), "it is gone")
	})
}
