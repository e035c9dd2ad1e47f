package otel_test

import (
	"encoding/json"
	"flag"
	"math"
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

// picture is where the picture of the documentation is written: go test -picture=../docs/metrics.svg.
var picture = flag.String("picture", "", "where to draw the dashboard")

var suffixes = regexp.MustCompile(`_(bucket|count|sum|total)$`)

// Every query of the dashboard has an answer in a workload in which everything happens, from names
// and labels that were scraped; every metric is in the dashboard and in the documentation.
func TestDashboardShowsWhatHappens(t *testing.T) {
	var scraped history
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, nil)
		scrape := func() { scraped = append(scraped, s.scrape()) }
		scrape()
		s.run(60, scrape)
		s.drop()
		scrape()
	})
	all, doc, asked := scraped[len(scraped)-1], readFile(t, "../docs/metrics.md"), readFile(t, "grafana/dynalimit.json")
	for name := range all {
		if base := suffixes.ReplaceAllString(name, ""); name != "target_info" {
			assert.Contains(t, doc, "`"+base, "not documented")
			assert.True(t, strings.Contains(asked, base) || base == "dynalimit_config_cached", "%s is not in the dashboard", name)
		}
		for _, s := range all[name] {
			assert.NotContains(t, s.labels, "dynalimit_entity", name)
		}
	}
	var d dashboard
	require.NoError(t, json.Unmarshal([]byte(asked), &d))
	var drawn []chart
	for _, p := range d.Panels {
		c := chart{title: p.Title}
		for _, target := range p.Targets {
			lines := scraped.lines(t, target.Expr, target.LegendFormat)
			assert.NotEmpty(t, lines, "%s: %s", p.Title, target.Expr)
			if strings.Contains(target.Expr, "increase(") || strings.Contains(target.Expr, "rate(") {
				assert.Positive(t, highest(lines), "%s: %s shows nothing of what happened", p.Title, target.Expr)
			}
			c.lines = append(c.lines, lines...)
		}
		drawn = append(drawn, c)
	}
	if *picture != "" {
		require.NoError(t, os.WriteFile(*picture, draw(drawn), 0o600))
	}
}

// highest is the highest value of lines.
func highest(lines []line) float64 {
	most := math.Inf(-1)
	for _, l := range lines {
		for _, v := range l.values {
			if v > most { // NaN is no value
				most = v
			}
		}
	}
	return most
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// Entities are attributes where that is asked for.
func TestEntities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, &otel.Options{Entity: true})
		for n := range 100 {
			s.call(n)
		}
		all := s.scrape()
		denied := slices.IndexFunc(all["dynalimit_denials_total"], func(s sample) bool { return s.value > 0 })
		require.GreaterOrEqual(t, denied, 0)
		assert.Equal(t, "team", all["dynalimit_denials_total"][denied].labels["dynalimit_entity"])
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
		elapse(time.Second)
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
