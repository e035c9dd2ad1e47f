package otel_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/otel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dashboard is what is read of the dashboard.
type dashboard struct {
	Panels []panel `json:"panels"`
}

type panel struct {
	Title   string `json:"title"`
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("grafana/dynalimit.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

var (
	aName    = regexp.MustCompile(`\b(dynalimit_[a-z_]+)(\{([^}]*)\})?\[|\((dynalimit_[a-z_]+)\)`)
	aGroup   = regexp.MustCompile(`by \(([^)]*)\)`)
	aLegend  = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
	aMatcher = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
	suffixes = regexp.MustCompile(`_(bucket|count|sum|total)$`)
)

// Every query of the dashboard is of names, labels and values that are scraped after a workload in
// which everything happens; every metric is in the dashboard, and in the documentation.
func TestDashboardAsksForWhatExists(t *testing.T) {
	var all series
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, nil)
		s.run(60, func() {})
		s.drop()
		all = s.scrape()
	})
	queries, asked := readDashboard(t), map[string]bool{}
	require.NotEmpty(t, queries.Panels)
	for _, p := range queries.Panels {
		for _, target := range p.Targets {
			ungrouped := aGroup.ReplaceAllString(target.Expr, "")
			names := aName.FindAllStringSubmatch(ungrouped, -1)
			require.Len(t, names, strings.Count(ungrouped, "dynalimit_")-len(aMatcher.FindAllString(ungrouped, -1)), target.Expr)
			require.NotEmpty(t, names, "%s: %s", p.Title, target.Expr)
			grouped := strings.Join(aGroup.FindAllString(target.Expr, -1), " ")
			for _, legend := range aLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.Contains(t, grouped, legend[1], "the legend of %s", p.Title)
			}
			for _, n := range names {
				name := n[1] + n[4]
				asked[suffixes.ReplaceAllString(name, "")] = true
				require.Contains(t, all, name, p.Title)
				for _, by := range aGroup.FindAllStringSubmatch(target.Expr, -1) {
					for _, label := range strings.Split(by[1], ", ") {
						assert.Contains(t, all[name][0].labels, label, "%s of %s", name, p.Title)
					}
				}
				for _, m := range aMatcher.FindAllStringSubmatch(n[3], -1) {
					assert.True(t, slices.ContainsFunc(all[name], func(s sample) bool { return s.labels[m[1]] == m[2] }), "%s of %s", m[0], p.Title)
				}
			}
		}
	}
	doc, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	for name := range all {
		if base := suffixes.ReplaceAllString(name, ""); name != "target_info" {
			assert.Contains(t, string(doc), "`"+base, "not documented")
			assert.True(t, asked[base] || base == "dynalimit_config_cached", "%s is not in the dashboard", name)
		}
		for _, s := range all[name] {
			assert.NotContains(t, s.labels, "dynalimit_entity", name)
		}
	}
}

// Entities are attributes where that is asked for.
func TestEntities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, &otel.Options{Entity: true})
		for n := range 100 {
			s.call(n)
		}
		all := s.scrape()
		require.NotEmpty(t, all["dynalimit_denials_total"])
		assert.Equal(t, "team", all["dynalimit_denials_total"][0].labels["dynalimit_entity"])
		assert.Equal(t, "key-1", all["dynalimit_granted_tokens_total"][0].labels["dynalimit_entity"])
	})
}

// An acquire that goes to the store is a span with its writes below it; one from memory is none.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, db, recorder := t.Context(), ddbmem.New(), tracetest.NewSpanRecorder()
		defer db.Close()
		repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
		require.NoError(t, err)
		require.NoError(t, repo.CreateTable(ctx))
		observer, err := otel.New(nil, trace.NewTracerProvider(trace.WithSpanProcessor(recorder)), nil)
		require.NoError(t, err)
		limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", 10)}, Observer: observer})
		require.NoError(t, err)
		time.Sleep(time.Second)
		began := time.Now()
		lease, err := limiter.Acquire(ctx, "key", "gpt-4", dynalimit.Amounts{"rpd": 10})
		require.NoError(t, err)
		_, err = limiter.Acquire(ctx, "key", "gpt-4", dynalimit.Amounts{"rpd": 1})
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		_, err = limiter.Acquire(ctx, "key", "gpt-4", dynalimit.Amounts{"misspelt": 1})
		require.Error(t, err)
		require.NoError(t, lease.Rollback(ctx))
		require.NoError(t, limiter.Close(ctx))

		type told struct {
			name, outcome, below, status string
		}
		names, spans := map[string]string{}, []told{}
		for _, s := range recorder.Ended() {
			names[s.SpanContext().SpanID().String()] = s.Name()
		}
		for _, s := range recorder.Ended() {
			set := attribute.NewSet(s.Attributes()...)
			outcome, _ := set.Value("dynalimit.outcome")
			assert.False(t, set.HasValue("dynalimit.entity"))
			assert.Equal(t, began, s.StartTime())
			spans = append(spans, told{s.Name(), outcome.AsString(), names[s.Parent().SpanID().String()], s.Status().Code.String()})
		}
		assert.Equal(t, []told{
			{"dynalimit.write", "landed", "dynalimit.acquire", "Unset"},
			{"dynalimit.acquire", "granted", "", "Unset"},
			{"dynalimit.acquire", "invalid", "", "Error"},
			{"dynalimit.write", "landed", "", "Unset"},
		}, spans)
	})
}
