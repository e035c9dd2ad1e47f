package keeper

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// TestMetricsAreThoseOfTheDocument: docs/keeper.md names each that there is, and no other.
func TestMetricsAreThoseOfTheDocument(t *testing.T) {
	page, err := os.ReadFile("../docs/keeper.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(page), "| metric, after `dynalimit_keeper_` |")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for line := range strings.Lines(table) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(strings.Split(line+"||", "|")[1], -1) {
			documented = append(documented, name[1])
		}
	}
	m := newMetrics(time.Now)
	m.onSweep(nil)
	m.onRefresh(budget.PriceReport{}, nil)
	var text bytes.Buffer
	m.writeAll(&text, readings{})
	var there []string
	for _, name := range regexp.MustCompile(`(?m)^# TYPE dynalimit_keeper_(\w+) `).FindAllStringSubmatch(text.String(), -1) {
		there = append(there, name[1])
	}
	assert.ElementsMatch(t, there, documented)
}

// series is every line of the metrics, without the prefix of their names.
func (m *metrics) series(r readings) map[string]string {
	var text bytes.Buffer
	m.writeAll(&text, r)
	out := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^dynalimit_keeper_(\S+) (\S+)$`).FindAllStringSubmatch(text.String(), -1) {
		out[line[1]] = line[2]
	}
	return out
}

// TestMetricsAddUp: what happened is in the series of its own, and a failure is no success.
func TestMetricsAddUp(t *testing.T) {
	at := time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)
	m := newMetrics(func() time.Time { return at })
	for _, name := range []string{"sweep_lag_seconds", "price_lag_seconds"} {
		assert.NotContains(t, m.series(readings{}), name, "nothing was done yet")
	}
	failed := errors.New("no")
	m.onSweep(nil)
	m.onRefresh(budget.PriceReport{Accepted: make([]budget.PriceChange, 3), Held: make([]budget.PriceChange, 2)}, nil)
	at = at.Add(10 * time.Second)
	m.onSweep(failed)
	m.onRefresh(budget.PriceReport{Accepted: make([]budget.PriceChange, 1)}, failed)
	for _, e := range []budget.Event{
		{Kind: budget.EventThreshold, Percent: 80}, {Kind: budget.EventThreshold, Percent: 80}, {Kind: budget.EventThreshold, Percent: 100}, {Kind: budget.EventFlip},
	} {
		m.onEvent(e)
	}
	for _, s := range []budgethttp.Served{
		{Route: "login", Method: "POST", Status: 429},
		{Route: "reserve", Method: "POST", Status: 429},
		{Route: "reserve", Method: "POST", Status: 429},
		{Method: "POST", Status: 404},
		{Route: "login", Method: "POST", Status: 503},
	} {
		m.onServed(t.Context(), s)
	}
	m.setLeading(true)
	want := map[string]string{
		"sweep_lag_seconds": "10", `sweeps_total{result="ok"}`: "1", `sweeps_total{result="failed"}`: "1",
		"price_lag_seconds": "10", `price_refreshes_total{result="failed"}`: "1", "prices_accepted_total": "4", "prices_held": "2",
		`quota_thresholds_total{percent="80"}`: "2", `quota_thresholds_total{percent="100"}`: "1", "flips_total": "1",
		`denials_total{kind="login"}`: "1", `denials_total{kind="quota"}`: "2",
		`request_seconds_count{route="none",method="POST",status="404"}`: "1",
		"sweeping": "1",
		"ready":    "1", "store_open": "1", "queued_operations": "5", "spooled_records": "6", "spooled_bytes": "2048", "requests_in_flight": "1",
		`logins_total{result="ok"}`: "11", `logins_total{result="refused"}`: "12", "secrets_retrieved_total": "13", "revocations_total": "14",
		`cache_hits_total{cache="config"}`: "21", `cache_misses_total{cache="config"}`: "22", `cache_hits_total{cache="totals"}`: "23", `cache_misses_total{cache="totals"}`: "24",
		`cache_hits_total{cache="revocations"}`: "25", `cache_misses_total{cache="revocations"}`: "26", `cache_hits_total{cache="tokens"}`: "27", `cache_misses_total{cache="tokens"}`: "28",
		`quota_used_percent{label="premium"}`: "99.5",
	}
	read := readings{
		ready: true, health: budget.Health{Open: true, Queued: 5, Spooled: 6, SpoolBytes: 2048},
		keeper: budget.Stats{ConfigHits: 21, ConfigMisses: 22, TotalHits: 23, TotalMisses: 24, QuotaPercent: map[string]float64{"premium": 99.5}},
		logins: credentials.Stats{Logins: 11, RefusedLogins: 12, Retrievals: 13, Revocations: 14, RevocationHits: 25, RevocationReads: 26},
		tokens: budgethttp.Stats{TokenHits: 27, TokenChecks: 28},
	}
	m.countInFlight(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		there := m.series(read)
		for name, value := range want {
			assert.Equal(t, value, there[name], name)
		}
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))

	m.setLeading(false)
	at = at.Add(-time.Minute) // a clock that was put back
	there := m.series(readings{})
	for name, value := range map[string]string{
		"requests_in_flight": "0", "sweeping": "0", "sweep_lag_seconds": "0",
	} {
		assert.Equal(t, value, there[name], name)
	}
}
