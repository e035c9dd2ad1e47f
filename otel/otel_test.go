package otel_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/observe"
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

// aMetric is a metric of an alert, and the label by which it selects.
var aMetric = regexp.MustCompile(`[( ](dynalimit_[a-z_]+)(?:\{([a-z_]+)=~?"[^"]*"\})?(?:\[|\) [=>])`)

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
	for _, m := range aMetric.FindAllStringSubmatch(readFile(t, "prometheus/alerts.yaml"), -1) {
		assert.Contains(t, all, m[1], "an alert")
		if m[2] != "" {
			assert.True(t, slices.ContainsFunc(all[m[1]], func(s sample) bool { _, has := s.labels[m[2]]; return has }), "an alert by %s", m[2])
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

// tokens are amounts by limit.
type tokens = map[string]int64

// measuredBy is all that a provider has, by metric and attributes, but counters that have counted
// nothing yet: of a duration how many there were and their sum.
func measuredBy(t *testing.T, reader metric.Reader) map[string]string {
	t.Helper()
	values := readingsOf(t, reader)
	maps.DeleteFunc(values, func(_, value string) bool { return value == "0" })
	return values
}

// readingsOf is measuredBy with those counters.
func readingsOf(t *testing.T, reader metric.Reader) map[string]string {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	values := map[string]string{}
	note := func(name string, of attribute.Set, value any) {
		var labels []string
		for _, a := range of.ToSlice() {
			labels = append(labels, strings.TrimPrefix(string(a.Key), "dynalimit.")+"="+a.Value.String())
		}
		values[strings.TrimPrefix(name, "dynalimit.")+" "+strings.Join(labels, " ")] = fmt.Sprint(value)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					note(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					note(m.Name, p.Attributes, fmt.Sprintf("%d: %gs", p.Count, p.Sum))
				}
			default:
				t.Errorf("%s is a %T", m.Name, d)
			}
		}
	}
	return values
}

// What each event counts, and nothing else does.
func TestWhatEachEventCounts(t *testing.T) {
	const at, second = "gpt-4", time.Second
	ctx := t.Context()
	denied := observe.Denial{EntityID: "key", Resource: at, RetryAfter: 3 * second, Exceeded: []observe.Exceeded{
		{EntityID: "key", Resource: at, Level: observe.LevelEntity, Limit: "rpm", RetryAfter: second},
		{EntityID: "team", Resource: "group", Level: observe.LevelParent, Limit: "tpm", RetryAfter: 3 * second},
	}}
	never := observe.Denial{EntityID: "key", Resource: at, RetryAfter: dynalimit.Never, FromMemory: true, Exceeded: []observe.Exceeded{
		{EntityID: "key", Resource: at, Level: observe.LevelEntity, Limit: "rpm", RetryAfter: dynalimit.Never},
	}}
	type values = map[string]string
	for name, c := range map[string]struct {
		tell  func(o *observe.Observer)
		wants values
	}{
		"a grant": {func(o *observe.Observer) {
			o.AcquireEnd(ctx, observe.AcquireEnd{EntityID: "key", Resource: at, Amounts: tokens{"rpm": 1, "tpm": 500}, Duration: second})
		}, values{
			"acquire.duration from_memory=false outcome=granted resource=gpt-4": "1: 1s",
			"acquires outcome=granted resource=gpt-4":                           "1",
			"granted.tokens limit=rpm resource=gpt-4":                           "1", "granted.tokens limit=tpm resource=gpt-4": "500",
		}},
		"a grant by a policy": {func(o *observe.Observer) {
			o.AcquireEnd(ctx, observe.AcquireEnd{EntityID: "key", Resource: at, Amounts: tokens{"rpm": 1}, Degraded: true})
		}, values{"acquire.duration from_memory=false outcome=degraded resource=gpt-4": "1: 0s", "acquires outcome=degraded resource=gpt-4": "1", "granted.tokens limit=rpm resource=gpt-4": "1"}},
		"the end of a denied acquire": {func(o *observe.Observer) {
			o.AcquireEnd(ctx, observe.AcquireEnd{EntityID: "key", Resource: at, Amounts: tokens{"rpm": 1}, Err: &dynalimit.LimitExceededError{}, FromMemory: true})
		}, values{"acquire.duration from_memory=true outcome=denied resource=gpt-4": "1: 0s", "acquires outcome=denied resource=gpt-4": "1"}},
		"a denial": {func(o *observe.Observer) { o.Denied(ctx, denied) }, values{
			"denials from_memory=false level=entity limit=rpm resource=gpt-4": "1",
			"denials from_memory=false level=parent limit=tpm resource=group": "1",
			"denial.retry_after resource=gpt-4":                               "1: 3s",
		}},
		"a denial that no wait ends": {func(o *observe.Observer) { o.Denied(ctx, never) }, values{
			"denials from_memory=true level=entity limit=rpm resource=gpt-4": "1",
		}},
		"a correction": {func(o *observe.Observer) {
			o.Corrected(ctx, observe.Correction{EntityID: "key", Resource: at, Kind: observe.CorrectionSettle, Used: tokens{"rpm": 1, "tpm": 300}, Change: tokens{"tpm": -200, "usd": 5}, Duration: second})
		}, values{
			"correction.duration kind=settle outcome=done resource=gpt-4":                "1: 1s",
			"corrected.tokens direction=given_back kind=settle limit=tpm resource=gpt-4": "200",
			"corrected.tokens direction=charged kind=settle limit=usd resource=gpt-4":    "5",
		}},
		"a correction that failed": {func(o *observe.Observer) {
			o.Corrected(ctx, observe.Correction{EntityID: "key", Resource: at, Kind: observe.CorrectionRollback, Err: &dynalimit.UnconfirmedError{}})
		}, values{"correction.duration kind=rollback outcome=unconfirmed resource=gpt-4": "1: 0s"}},
		"an overrun": {func(o *observe.Observer) {
			o.Overran(observe.Overrun{EntityID: "team", Resource: at, Limit: "tpm", Amount: 7, Shadow: true})
		}, values{"overrun.tokens limit=tpm resource=gpt-4 shadow=true": "7"}},
		"a write": {func(o *observe.Observer) {
			o.WriteEnd(ctx, observe.WriteEnd{EntityID: "key", Resource: at, Kind: observe.WriteSpend, Callers: 4, Outcome: "landed", Tries: 2, Duration: second})
		}, values{
			"write.duration kind=spend outcome=landed resource=gpt-4": "1: 1s",
			"write.callers kind=spend resource=gpt-4":                 "4", "write.requests kind=spend resource=gpt-4": "2",
		}},
		"a configuration": {func(o *observe.Observer) {
			o.ConfigLoaded(observe.ConfigLoad{EntityID: "key", Resource: at, Duration: second, Err: errors.New("broken")})
		}, values{"config.load.duration outcome=failed resource=gpt-4": "1: 1s"}},
		"an outage, begun and ended": {func(o *observe.Observer) {
			o.AvailabilityChanged(observe.AvailabilityChange{Table: "limits", Open: true})
			o.AvailabilityChanged(observe.AvailabilityChange{Table: "limits"})
		}, values{"outages table=limits": "1"}},
		"pacing, begun and ended": {func(o *observe.Observer) {
			o.PacingChanged(observe.PacingChange{EntityID: "key", Resource: at, Why: observe.WritesThrottled, Paced: true})
			o.PacingChanged(observe.PacingChange{EntityID: "key", Resource: at, Why: observe.WritesThrottled})
		}, values{"pacings cause=writes throttled resource=gpt-4": "1"}},
		"a drop": {func(o *observe.Observer) { o.Dropped(observe.Drop{Amounts: tokens{"rpm": 1, "tpm": 2}}) }, values{
			"dropped.tokens limit=rpm": "1", "dropped.tokens limit=tpm": "2",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			reader := metric.NewManualReader()
			observer, err := otel.New(metric.NewMeterProvider(metric.WithReader(reader)), nil, nil)
			require.NoError(t, err)
			c.tell(&observer)
			assert.Equal(t, c.wants, measuredBy(t, reader))
		})
	}
}

// Prometheus sees no increase in a counter that begins with its first event. So those of rare events
// begin at 0 with the first call, and those of tables with the process.
func TestRareEventsBeginAtZero(t *testing.T) {
	reader := metric.NewManualReader()
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	observer, err := otel.New(meters, nil, nil)
	require.NoError(t, err)
	repo, err := dynalimit.NewRepository(ddbmem.New().Client(), "limits", nil)
	require.NoError(t, err)
	watched, err := otel.Watch(meters, &dynalimit.RateLimiter{}, repo)
	require.NoError(t, err)
	require.NoError(t, watched.Unregister())
	observer.AcquireEnd(t.Context(), observe.AcquireEnd{EntityID: "key", Resource: "gpt-4", Amounts: tokens{"rpm": 1}})
	began := readingsOf(t, reader)
	for _, name := range []string{
		"outages table=limits",
		"acquires outcome=degraded resource=gpt-4", "acquires outcome=denied resource=gpt-4", "acquires outcome=blocked resource=gpt-4",
		"acquires outcome=paused resource=gpt-4", "acquires outcome=unconfirmed resource=gpt-4", "acquires outcome=unavailable resource=gpt-4",
		"acquires outcome=contended resource=gpt-4", "acquires outcome=canceled resource=gpt-4", "acquires outcome=invalid resource=gpt-4", "acquires outcome=failed resource=gpt-4",
		"denials from_memory=false level=entity limit=rpm resource=gpt-4", "denials from_memory=true level=parent limit=rpm resource=gpt-4",
		"overrun.tokens limit=rpm resource=gpt-4 shadow=false", "overrun.tokens limit=rpm resource=gpt-4 shadow=true", "dropped.tokens limit=rpm",
		"pacings cause=writes throttled resource=gpt-4", "pacings cause=reads throttled resource=gpt-4",
	} {
		assert.Equal(t, "0", began[name], name)
	}
}

// TestWaitsOfQuotasAreMeasured: the wait of a denial by a quota of the month has a bound above it.
func TestWaitsOfQuotasAreMeasured(t *testing.T) {
	reader := metric.NewManualReader()
	observer, err := otel.New(metric.NewMeterProvider(metric.WithReader(reader)), nil, nil)
	require.NoError(t, err)
	observer.Denied(t.Context(), observe.Denial{EntityID: "key", Resource: "gpt-4", RetryAfter: 31 * 24 * time.Hour})
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	waits, ok := all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Histogram[float64])
	require.True(t, ok)
	counts := waits.DataPoints[0].BucketCounts
	assert.Zero(t, counts[len(counts)-1], "beyond the last bound")
}

// Without a provider nothing is measured.
func TestWithoutAProvider(t *testing.T) {
	observer, err := otel.New(nil, nil, nil)
	require.NoError(t, err)
	assert.Equal(t, observe.Observer{}, observer)
	watched, err := otel.Watch(nil, &dynalimit.RateLimiter{}, &dynalimit.Repository{})
	require.NoError(t, err)
	require.NoError(t, watched.Unregister())
}

// line is a query's answers over time; NaN is none.
type line struct {
	legend string
	values []float64
}

// chart is a panel of the dashboard.
type chart struct {
	title string
	lines []line
}

var colours = []string{"#1b6ca8", "#d1495b", "#3a8f4d", "#c77d0a", "#7b4fa3", "#5f6b73"}

// draw draws charts, four in a row.
func draw(charts []chart) []byte {
	const width, height, plot, left = 245, 165, 90, 44
	var b bytes.Buffer
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"9\">\n", 4*width, (len(charts)+3)/4*height)
	fmt.Fprintln(&b, `<rect width="100%" height="100%" fill="#fff"/>`)
	for i, c := range charts {
		most := 0.0
		for _, l := range c.lines {
			for _, v := range l.values {
				most = max(most, finite(v))
			}
		}
		if most == 0 {
			most = 1
		}
		fmt.Fprintf(&b, "<g transform=\"translate(%d %d)\"><text x=\"6\" y=\"14\" font-size=\"11\" font-weight=\"bold\">%s</text>\n", i%4*width, i/4*height, html.EscapeString(c.title))
		fmt.Fprintf(&b, "<path d=\"M%d 24V%dH%d\" fill=\"none\" stroke=\"#999\"/><text x=\"%d\" y=\"32\" text-anchor=\"end\">%s</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text>\n",
			left, 24+plot, width-8, left-4, strconv.FormatFloat(most, 'g', 3, 64), left-4, 24+plot)
		for k, l := range c.lines {
			colour, pen := colours[k%len(colours)], 'M'
			fmt.Fprintf(&b, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.3\" d=\"", colour)
			for at, v := range l.values {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					pen = 'M'
					continue
				}
				fmt.Fprintf(&b, "%c%d %.1f", pen, left+at*(width-left-8)/len(l.values), 24+plot*(1-v/most))
				pen = 'L'
			}
			fmt.Fprintln(&b, `"/>`)
			if k < 6 {
				fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" fill=\"%s\" font-size=\"8\">%s</text>\n", 8+k%2*122, 126+k/2*11, colour, html.EscapeString(l.legend))
			}
		}
		fmt.Fprintln(&b, "</g>")
	}
	fmt.Fprintln(&b, "</svg>")
	return b.Bytes()
}

// finite is a value that can be drawn, or 0.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
