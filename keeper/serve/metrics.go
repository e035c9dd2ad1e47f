package keeper

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// metrics counts the work of the process, and writes it in the text format of Prometheus.
// Labels have few values: routes, methods and statuses, but never an organisation.
type metrics struct {
	now      func() time.Time
	inFlight atomic.Int64

	mu        sync.Mutex
	served    map[servedKey]*histogram
	denials   map[string]int64 // by kind
	events    map[eventKey]int64
	sweeps    map[string]int64 // by result
	swept     time.Time        // the last sweep of this process
	leading   bool             // this process is the one that sweeps
	refreshes map[string]int64 // by result
	refreshed time.Time        // the last refresh of prices
	quotas    quotas
	accepted  int64 // prices
	held      int64 // prices held back by the last refresh
}

// quotaLabels is the maximal number of labels with their own series.
const quotaLabels = 64

type servedKey struct {
	route, method string
	status        int
}

type eventKey struct {
	kind    budget.EventKind
	percent int64
}

// newMetrics returns the counters of a process, all at 0. It creates the series of rare events at once, because
// Prometheus misses an increase in a series that begins with its first event. now is the clock.
func newMetrics(now func() time.Time) *metrics {
	results := map[string]int64{"ok": 0, "failed": 0}
	m := &metrics{
		now: now, served: map[servedKey]*histogram{}, denials: map[string]int64{"quota": 0, "login": 0}, events: map[eventKey]int64{},
		sweeps: maps.Clone(results), refreshes: maps.Clone(results), quotas: quotas{maximum: quotaLabels},
	}
	for _, percent := range []int64{50, 80, 100} { // the percentages of budget.Event
		m.events[eventKey{budget.EventThreshold, percent}] = 0
	}
	return m
}

// methods are the HTTP methods with their own series. A client may send any other.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions}

// onServed implements budgethttp.Options.OnServed: it counts a response with its duration by route, method and
// status. It also counts a 429 as a denial, of a login or of a quota. Unusual methods count as "other".
func (m *metrics) onServed(_ context.Context, s budgethttp.Served) {
	key := servedKey{cmp.Or(s.Route, "none"), s.Method, s.Status}
	if !slices.Contains(methods, s.Method) {
		key.method = "other"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.served[key]
	if h == nil {
		h = &histogram{}
		m.served[key] = h
	}
	h.observeDuration(s.Took)
	if s.Status == http.StatusTooManyRequests {
		kind := "quota"
		if s.Route == "login" || strings.HasPrefix(s.Route, "fetch") { // a secret by a token alone
			kind = "login"
		}
		m.denials[kind]++
	}
}

// onEvent counts an event of the keeper, by kind and percentage: a quota that reached a percentage, or an app
// that changed its label.
func (m *metrics) onEvent(e budget.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events[eventKey{e.Kind, e.Percent}]++
}

// resultLabel returns the value of a metric's label: failed for an error, else ok.
func resultLabel(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

// onSweep counts a sweep of this process as ok or failed. If err is nil, it also records the present time as
// the last sweep.
func (m *metrics) onSweep(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweeps[resultLabel(err)]++
	if err == nil {
		m.swept = m.now()
	}
}

// setLeading records, for the metrics, whether this process is the one that sweeps. It takes or releases no
// lease.
func (m *metrics) setLeading(leading bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leading = leading
}

// onRefresh counts a refresh of prices as ok or failed, and adds its accepted prices, also those before an
// error. If err is nil, it records the time and the number of held prices.
func (m *metrics) onRefresh(report budget.PriceReport, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refreshes[resultLabel(err)]++
	m.accepted += int64(len(report.Accepted))
	if err == nil {
		m.refreshed, m.held = m.now(), int64(len(report.Held))
	}
}

// countInFlight returns a handler that calls next and counts its running requests in m.inFlight.
func (m *metrics) countInFlight(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.inFlight.Add(1)
		defer m.inFlight.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// family is the metrics of one name.
type family struct{ name, kind, help string }

// writeHead writes the metric's help and type lines in Prometheus's text format, which must precede its values.
func (f family) writeHead(w io.Writer) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
}

// writeOne writes the metric's help and type lines and its only value, without labels, in Prometheus's text
// format.
func (f family) writeOne(w io.Writer, value float64) {
	f.writeHead(w)
	fmt.Fprintf(w, "%s %s\n", f.name, strconv.FormatFloat(value, 'g', -1, 64))
}

// writeByLabel writes the metric's help and type lines, and one line for each entry of values, sorted. The keys
// are the values of the label. Without entries it writes the two lines only.
func writeByLabel[N int64 | float64](w io.Writer, f family, label string, values map[string]N) {
	f.writeHead(w)
	for _, value := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(w, "%s{%s} %s\n", f.name, formatLabels(label, value), strconv.FormatFloat(float64(values[value]), 'g', -1, 64))
	}
}

// readings are the states of a service's parts.
type readings struct {
	ready  bool
	health budget.Health
	keeper budget.Stats
	logins credentials.Stats
	tokens budgethttp.Stats
	log    int64 // dropped lines
}

// writeAll writes all metrics in Prometheus's text format: the readings r of the service's parts, and this
// process's own counters. It locks m.mu for parts of it.
func (m *metrics) writeAll(w io.Writer, r readings) {
	family{"dynalimit_keeper_ready", "gauge", "1 while the keeper accepts and can serve requests."}.writeOne(w, boolValue(r.ready))
	family{"dynalimit_keeper_requests_in_flight", "gauge", "Requests in flight."}.writeOne(w, float64(m.inFlight.Load()))
	family{"dynalimit_keeper_store_open", "gauge", "1 while DynamoDB does not answer."}.writeOne(w, boolValue(r.health.Open))
	family{"dynalimit_keeper_queued_operations", "gauge", "Operations that wait in this process to be written."}.writeOne(w, float64(r.health.Queued))
	family{"dynalimit_keeper_spooled_records", "gauge", "Records that wait in the spool."}.writeOne(w, float64(r.health.Spooled))
	family{"dynalimit_keeper_spooled_bytes", "gauge", "Size of the spool, in bytes."}.writeOne(w, float64(r.health.SpoolBytes))
	family{"dynalimit_keeper_log_lines_dropped_total", "counter", "Dropped lines of the log: their reader was too slow, or they could not be written."}.writeOne(w, float64(r.log))
	m.writeOwn(w)
	m.writeQuotas(w, r.keeper.QuotaPercent)
	writeByLabel(w, family{"dynalimit_keeper_logins_total", "counter", "Logins, by result."}, "result", map[string]int64{"ok": r.logins.Logins, "refused": r.logins.RefusedLogins})
	family{"dynalimit_keeper_secrets_retrieved_total", "counter", "Secrets that were handed out."}.writeOne(w, float64(r.logins.Retrievals))
	family{"dynalimit_keeper_revocations_total", "counter", "Tokens, sessions, clients and keys that were ended."}.writeOne(w, float64(r.logins.Revocations))
	writeByLabel(w, family{"dynalimit_keeper_cache_hits_total", "counter", "Hits of caches, by cache. A hit saves a read of the store; for tokens, a check of the signature."}, "cache", map[string]int64{
		"config": r.keeper.ConfigHits, "totals": r.keeper.TotalHits, "revocations": r.logins.RevocationHits, "tokens": r.tokens.TokenHits,
	})
	writeByLabel(w, family{"dynalimit_keeper_cache_misses_total", "counter", "Misses of caches, by cache."}, "cache", map[string]int64{
		"config": r.keeper.ConfigMisses, "totals": r.keeper.TotalMisses, "revocations": r.logins.RevocationReads, "tokens": r.tokens.TokenChecks,
	})
}

// writeQuotas writes the used percentage of quotas by label. Labels beyond the maximal number of series share
// one. It locks m.mu.
func (m *metrics) writeQuotas(w io.Writer, percent map[string]float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	writeByLabel(w, family{"dynalimit_keeper_quota_used_percent", "gauge", "The highest use of a quota among the apps that asked here in the last ten minutes, by label."}, "label", m.quotas.boundSeries(percent))
}

// writeOwn writes the counters of this process: requests, denials, events, sweeps and refreshes of prices. It
// locks m.mu meanwhile.
func (m *metrics) writeOwn(w io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seconds := family{"dynalimit_keeper_request_seconds", "histogram", "How long requests took, by route, method and status."}
	seconds.writeHead(w)
	for _, k := range slices.SortedFunc(maps.Keys(m.served), func(a, b servedKey) int {
		return cmp.Or(cmp.Compare(a.route, b.route), cmp.Compare(a.method, b.method), cmp.Compare(a.status, b.status))
	}) {
		m.served[k].writeText(w, seconds.name, formatLabels("route", k.route, "method", k.method, "status", strconv.Itoa(k.status)))
	}
	writeByLabel(w, family{"dynalimit_keeper_denials_total", "counter", "Requests that were answered with 429: for a quota, or for failed logins."}, "kind", m.denials)
	thresholds, flips := map[string]int64{}, int64(0)
	for k, n := range m.events {
		if k.kind == budget.EventThreshold {
			thresholds[strconv.FormatInt(k.percent, 10)] += n
		} else {
			flips += n
		}
	}
	writeByLabel(w, family{"dynalimit_keeper_quota_thresholds_total", "counter", "Quotas that were used to a percentage, as this process was told."}, "percent", thresholds)
	family{"dynalimit_keeper_flips_total", "counter", "Apps that moved to another label, as this process was told."}.writeOne(w, float64(flips))
	family{"dynalimit_keeper_sweeping", "gauge", "1 in the one process that closes days."}.writeOne(w, boolValue(m.leading))
	writeByLabel(w, family{"dynalimit_keeper_sweeps_total", "counter", "Sweeps of this process, by result."}, "result", m.sweeps)
	writeByLabel(w, family{"dynalimit_keeper_price_refreshes_total", "counter", "Refreshes of prices, by result."}, "result", m.refreshes)
	family{"dynalimit_keeper_prices_accepted_total", "counter", "Prices that refreshes took from the list."}.writeOne(w, float64(m.accepted))
	family{"dynalimit_keeper_prices_held", "gauge", "Prices that the last refresh held back; the log has each with its reason."}.writeOne(w, float64(m.held))
	m.writeAge(w, "dynalimit_keeper_sweep_lag_seconds", "Seconds since the last sweep of this process. Absent before the first.", m.swept)
	m.writeAge(w, "dynalimit_keeper_price_lag_seconds", "Seconds since the last refresh of prices by this process. Absent before the first.", m.refreshed)
}

// writeAge writes a gauge with the seconds from since to now, at least 0. If since is zero, because the event
// never happened, it writes nothing.
func (m *metrics) writeAge(w io.Writer, name, help string, since time.Time) {
	if !since.IsZero() {
		family{name, "gauge", help}.writeOne(w, max(m.now().Sub(since).Seconds(), 0))
	}
}

// boolValue returns the value of a metric: 1 for true, 0 for false.
func boolValue(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// operationsHandler returns the handler of /metrics, /live and /ready. The last answers 503 unless isReady, and
// mentions dropped log lines without another status; /live always answers 200.
func (s *Service) operationsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var text bytes.Buffer
		dropped, _ := s.logDropped()
		s.metrics.writeAll(&text, readings{s.isReady(), s.keeper.Health(), s.keeper.Stats(), s.store.Stats(), s.handler.Stats(), dropped})
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = text.WriteTo(w) // the client may be gone
	})
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !s.isReady() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		if _, dropping := s.logDropped(); dropping { // not a reason to redirect requests: with one reader for all logs, every process would drop out
			fmt.Fprintln(w, "lines of the log are dropped: whatever reads it is too slow, or gone")
		}
	})
	return mux
}

// logDropped returns the number of dropped log lines, and whether the last line was dropped. Without Parts.Log
// it returns 0 and false.
func (s *Service) logDropped() (lines int64, dropping bool) {
	if s.parts.Log == nil {
		return 0, false
	}
	return s.parts.Log.Dropped()
}
