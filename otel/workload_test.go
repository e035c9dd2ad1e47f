package otel_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/keeperotel"
	"github.com/dynalimit/dynalimit/otel"
	"github.com/dynalimit/dynalimit/prices"
)

// service is a limiter and a keeper that are scraped, in a bubble.
type service struct {
	t        *testing.T
	db       *ddbmem.DB
	registry *prometheus.Registry
	meters   *metric.MeterProvider
	limiter  *dynalimit.RateLimiter
	keeper   *budget.Keeper
}

const org = "550e8400-e29b-41d4-a716-446655440000"

func newService(t *testing.T, opts *otel.Options) *service {
	s := &service{t: t, db: ddbmem.New(), registry: prometheus.NewRegistry()}
	t.Cleanup(s.db.Close)
	reader, err := exporter.New(exporter.WithRegisterer(s.registry))
	require.NoError(t, err)
	s.meters = metric.NewMeterProvider(metric.WithReader(reader))
	s.latency(5 * time.Millisecond)
	ctx := t.Context()

	repo, err := dynalimit.NewRepository(s.db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "test"})
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(ctx))
	a := admin.New(repo)
	money := dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(1), "").AsShadow()
	money.PerModel = true
	require.NoError(t, a.Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "llama-70b"}, []dynalimit.Limit{dynalimit.Concurrent("inflight", 20, 0)}))
	require.NoError(t, a.Limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerSecond("rps", 10), dynalimit.PerMinute("tpm", 60_000), dynalimit.PerDay("trial", 1).AsShadow(), money}))
	_, err = a.Limits.SetConfig(ctx, admin.Scope{Entity: "team"}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerSecond("rps", 25)}, Only: true})
	require.NoError(t, err)
	for _, key := range keys {
		require.NoError(t, a.Entities.Create(ctx, admin.Entity{ID: key, ParentID: "team", Cascade: true}))
	}
	observer, err := otel.New(s.meters, nil, opts)
	require.NoError(t, err)
	s.limiter, err = dynalimit.New(repo, &dynalimit.Options{Observer: observer, OnUnavailable: dynalimit.Allow})
	require.NoError(t, err)
	_, err = otel.Watch(s.meters, s.limiter, repo)
	require.NoError(t, err)

	onEvent, err := keeperotel.CountEvents(s.meters)
	require.NoError(t, err)
	s.keeper, err = budget.New(s.db.Client(), budget.Tables{Control: "control", Usage: "usage"}, &budget.Options{
		Principal: "test", OnEvent: onEvent,
		Models: map[string]string{"premium": "anthropic.claude-3-5-sonnet-20241022-v2:0", "standard": "anthropic.claude-3-5-haiku-20241022-v1:0"},
	})
	require.NoError(t, err)
	require.NoError(t, s.keeper.Setup().CreateTables(ctx))
	_, err = s.keeper.Setup().PutOrg(ctx, budget.Org{ID: org, Ordering: []string{"premium", "standard"}, Quotas: map[string]int64{"premium": 100_000, "standard": 50_000}})
	require.NoError(t, err)
	_, err = s.keeper.Setup().PutApp(ctx, org, budget.App{ID: "chat"})
	require.NoError(t, err)
	_, err = keeperotel.Watch(s.meters, s.keeper)
	require.NoError(t, err)
	t.Cleanup(s.close)
	return s
}

var keys = []string{"key-1", "key-2", "key-3"}

// latency is what every request takes from now on.
func (s *service) latency(d time.Duration) {
	s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: d / 2, After: d / 2} })
}

// call asks for a request as a service does. Whatever comes of it is measured.
func (s *service) call(n int, opts ...dynalimit.AcquireOption) {
	ctx := s.t.Context()
	amounts := dynalimit.Amounts{"rps": 1, "tpm": 500, "trial": 1, "usd": 40_000}
	lease, err := s.limiter.Acquire(ctx, keys[n%len(keys)], "gpt-4", amounts, opts...)
	if err != nil {
		return
	}
	switch n % 5 {
	case 0:
		_ = lease.Rollback(ctx)
	case 1:
		_ = lease.Settle(ctx, dynalimit.Amounts{"tpm": 900, "usd": 50_000})
	case 2:
		_ = lease.Consume(ctx, dynalimit.Amounts{"tpm": 10})
		_ = lease.Adjust(ctx, dynalimit.Amounts{"tpm": 20})
		_ = lease.Settle(ctx, nil)
	default:
		_ = lease.Settle(ctx, dynalimit.Amounts{"tpm": 300, "usd": 12_345})
	}
}

// begin begins a call that lasts for a while.
func (s *service) begin() {
	ctx := context.WithoutCancel(s.t.Context())
	if lease, err := s.limiter.Acquire(ctx, "agent", "llama-70b", dynalimit.Amounts{"inflight": 1}); err == nil {
		time.AfterFunc(25*time.Second, func() { _ = lease.Rollback(ctx) })
	}
}

// run makes calls for a time, at a rate that grows beyond the limits, and has each second told.
func (s *service) run(seconds int, each func()) {
	for second := range seconds {
		switch second {
		case seconds * 5 / 10:
			s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{After: time.Hour} })
		case seconds * 7 / 10:
			s.latency(5 * time.Millisecond)
		case seconds * 9 / 10:
			s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if r.Operation == "UpdateItem" && r.Seq%2 == 0 {
					return ddbmem.Fault{Error: &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}}
				}
				return ddbmem.Fault{Before: 5 * time.Millisecond}
			})
		}
		end := time.Now().Add(time.Second)
		for n, calls := 0, 2+60*second/seconds; n < calls && time.Now().Before(end); n++ {
			s.call(second + n)
			elapse(time.Second / time.Duration(calls) / 2)
		}
		if second%10 == 0 {
			s.begin()
		}
		s.spend(second)
		elapse(time.Until(end))
		each()
	}
	s.latency(0)
}

// spend has the keeper count what a model call cost, and choose the next model.
func (s *service) spend(n int) {
	ctx := s.t.Context()
	_, _ = s.keeper.Submit(ctx, org, "chat", prices.Usage{
		RequestID: fmt.Sprintf("7c9e6679-7425-40de-944b-%012d", n), Label: "premium", Tokens: prices.Tokens{Input: 300, Output: 160},
	})
	_, _ = s.keeper.Recommend(ctx, org, "chat")
}

// drop has something in doubt: what was sent and not answered; and something dropped: what is
// admitted in an outage that goes on when the limiter is closed.
func (s *service) drop() {
	ctx := context.WithoutCancel(s.t.Context())
	s.latency(0)
	elapse(time.Minute)
	lease, err := s.limiter.Acquire(ctx, keys[0], "gpt-4", dynalimit.Amounts{"tpm": 1})
	require.NoError(s.t, err)
	s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{After: time.Hour} })
	require.Error(s.t, lease.Adjust(ctx, dynalimit.Amounts{"tpm": 100}))
	s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
	for n := range 20 {
		s.call(n, dynalimit.WithOnUnavailable(dynalimit.Allow))
	}
	_ = s.limiter.Close(ctx)
}

func (s *service) close() {
	s.db.SetFaults(nil)
	ctx := context.WithoutCancel(s.t.Context())
	assert.NoError(s.t, s.limiter.Close(ctx))
	assert.NoError(s.t, s.keeper.Close(ctx))
}

// series are values by name and labels.
type series map[string][]sample

type sample struct {
	labels map[string]string
	value  float64
}

var (
	aLine  = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
	aLabel = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
)

// scrape reads /metrics as Prometheus does.
func (s *service) scrape() series {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	all := series{}
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		m := aLine.FindStringSubmatch(line)
		require.NotNil(s.t, m, line)
		value, err := strconv.ParseFloat(m[3], 64)
		require.NoError(s.t, err)
		labels := map[string]string{}
		for _, l := range aLabel.FindAllStringSubmatch(m[2], -1) {
			labels[l[1]] = l[2]
		}
		all[m[1]] = append(all[m[1]], sample{labels, value})
	}
	return all
}

// elapse lets virtual time pass.
func elapse(d time.Duration) { <-time.After(d) }
