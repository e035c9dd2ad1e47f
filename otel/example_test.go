package otel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/otel"
)

// measured is a limiter that is measured.
func measured(repo *dynalimit.Repository, limits []dynalimit.Limit, meters metric.MeterProvider, tracers trace.TracerProvider) (*dynalimit.RateLimiter, error) {
	observer, err := otel.New(meters, tracers, nil) // nil for no metrics, or no spans
	if err != nil {
		return nil, err
	}
	limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: limits, Observer: observer})
	if err != nil {
		return nil, err
	}
	_, err = otel.Watch(meters, limiter, repo)
	return limiter, err
}

// A service has Prometheus scrape what its limiter does.
func Example() {
	ctx := context.Background()
	registry := prometheus.NewRegistry()
	reader := must(exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo()))
	meters := sdk.NewMeterProvider(sdk.WithReader(reader))

	repo := must(dynalimit.NewRepository(ddbmem.New().Client(), "limits", nil))
	check(repo.CreateTable(ctx))
	limiter := must(measured(repo, []dynalimit.Limit{dynalimit.PerDay("tpd", 1_000)}, meters, nil))

	lease := must(limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpd": 900}))
	check(lease.Settle(ctx, dynalimit.Amounts{"tpd": 850}))
	_, err := limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpd": 500})
	fmt.Println(errors.Is(err, dynalimit.ErrLimitExceeded))
	check(limiter.Close(ctx))

	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.Contains(line, "_total{") && !strings.Contains(line, "write") && !strings.HasSuffix(line, " 0\n") {
			fmt.Print(line)
		}
	}
	// Output:
	// true
	// dynalimit_acquires_total{dynalimit_outcome="denied",dynalimit_resource="gpt-4"} 1
	// dynalimit_acquires_total{dynalimit_outcome="granted",dynalimit_resource="gpt-4"} 1
	// dynalimit_config_lookups_total{dynalimit_result="hit"} 1
	// dynalimit_config_lookups_total{dynalimit_result="miss"} 1
	// dynalimit_corrected_tokens_total{dynalimit_direction="given_back",dynalimit_kind="settle",dynalimit_limit="tpd",dynalimit_resource="gpt-4"} 50
	// dynalimit_denials_total{dynalimit_from_memory="true",dynalimit_level="entity",dynalimit_limit="tpd",dynalimit_resource="gpt-4"} 1
	// dynalimit_granted_tokens_total{dynalimit_limit="tpd",dynalimit_resource="gpt-4"} 900
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
