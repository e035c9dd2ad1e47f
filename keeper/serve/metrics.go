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

// metrics counts what the process did, and writes it in the text format of Prometheus.
// Labels have few values: routes, methods and statuses, and never an organisation.
type metrics struct {
	now      func() time.Time
	inFlight atomic.Int64

	mu        sync.Mutex
	served    map[servedKey]*histogram
	denials   map[string]int64 // by kind
	events    map[eventKey]int64
	sweeps    map[string]int64 // by result
	swept     time.Time        // when this process last swept
	leading   bool             // this process is the one that sweeps
	refreshes map[string]int64 // by result
	refreshed time.Time        // when prices were last refreshed
	quotas    quotas
	accepted  int64 // prices
	held      int64 // prices that the last refresh held back
}

// quotaLabels is how many labels have a series of their own.
const quotaLabels = 64

type servedKey struct {
	route, method string
	status        int
}

type eventKey struct {
	kind    budget.EventKind
	percent int64
}

// newMetrics begins the counters of rare events at 0: Prometheus sees no increase in a series that
// begins with its first event.
func newMetrics(now func() time.Time) *metrics {
	results := map[string]int64{"ok": 0, "failed": 0}
	m := &metrics{
		now: now, served: map[servedKey]*histogram{}, denials: map[string]int64{"quota": 0, "login": 0}, events: map[eventKey]int64{},
		sweeps: maps.Clone(results), refreshes: maps.Clone(results), quotas: quotas{maximum: quotaLabels},
	}
	for _, percent := range []int64{50, 80, 100} { // those of budget.Event
		m.events[eventKey{budget.EventThreshold, percent}] = 0
	}
	return m
}

// methods are those that have a series of their own: a client may send any other.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions}

// onServed is for budgethttp.Options.OnServed.
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
	h.observe(s.Took)
	if s.Status == http.StatusTooManyRequests {
		kind := "quota"
		if s.Route == "login" || strings.HasPrefix(s.Route, "fetch") { // a secret, by a token alone
			kind = "login"
		}
		m.denials[kind]++
	}
}

// onEvent counts a threshold or a change of label.
func (m *metrics) onEvent(e budget.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events[eventKey{e.Kind, e.Percent}]++
}

func result(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

func (m *metrics) onSweep(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweeps[result(err)]++
	if err == nil {
		m.swept = m.now()
	}
}

func (m *metrics) setLeading(leading bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leading = leading
}

func (m *metrics) onRefresh(report budget.PriceReport, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refreshes[result(err)]++
	m.accepted += int64(len(report.Accepted))
	if err == nil {
		m.refreshed, m.held = m.now(), int64(len(report.Held))
	}
}

// counting counts the requests under way.
func (m *metrics) counting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.inFlight.Add(1)
		defer m.inFlight.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// family is metrics of one name.
type family struct{ name, kind, help string }

func (f family) head(w io.Writer) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
}

func (f family) one(w io.Writer, value float64) {
	f.head(w)
	fmt.Fprintf(w, "%s %s\n", f.name, strconv.FormatFloat(value, 'g', -1, 64))
}

// by writes values, one for each value of a label.
func by[N int64 | float64](w io.Writer, f family, label string, values map[string]N) {
	f.head(w)
	for _, value := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(w, "%s{%s} %s\n", f.name, labelled(label, value), strconv.FormatFloat(float64(values[value]), 'g', -1, 64))
	}
}

// readings are what the parts of a service say of themselves.
type readings struct {
	ready  bool
	health budget.Health
	keeper budget.Stats
	logins credentials.Stats
	tokens budgethttp.Stats
	log    int64 // lines that were dropped
}

// write writes everything.
func (m *metrics) write(w io.Writer, r readings) {
	family{"dynalimit_keeper_ready", "gauge", "1 while requests are taken and can be served."}.one(w, number(r.ready))
	family{"dynalimit_keeper_requests_in_flight", "gauge", "Requests under way."}.one(w, float64(m.inFlight.Load()))
	family{"dynalimit_keeper_store_open", "gauge", "1 while DynamoDB does not answer."}.one(w, number(r.health.Open))
	family{"dynalimit_keeper_queued_operations", "gauge", "Operations that wait in this process to be written."}.one(w, float64(r.health.Queued))
	family{"dynalimit_keeper_spooled_records", "gauge", "Records that wait in the spool."}.one(w, float64(r.health.Spooled))
	family{"dynalimit_keeper_spooled_bytes", "gauge", "Size of the spool, in bytes."}.one(w, float64(r.health.SpoolBytes))
	family{"dynalimit_keeper_log_lines_dropped_total", "counter", "Lines of the log that found no room, since nothing read them, or that could not be written."}.one(w, float64(r.log))
	m.writeOwn(w)
	m.writeQuotas(w, r.keeper.QuotaPercent)
	by(w, family{"dynalimit_keeper_logins_total", "counter", "Logins, by result."}, "result", map[string]int64{"ok": r.logins.Logins, "refused": r.logins.RefusedLogins})
	family{"dynalimit_keeper_secrets_retrieved_total", "counter", "Secrets that were handed out."}.one(w, float64(r.logins.Retrievals))
	family{"dynalimit_keeper_revocations_total", "counter", "Tokens, sessions, clients and keys that were ended."}.one(w, float64(r.logins.Revocations))
	by(w, family{"dynalimit_keeper_cache_hits_total", "counter", "What was known without a read, or for tokens without a look at the signature, by cache."}, "cache", map[string]int64{
		"config": r.keeper.ConfigHits, "totals": r.keeper.TotalHits, "revocations": r.logins.RevocationHits, "tokens": r.tokens.TokenHits,
	})
	by(w, family{"dynalimit_keeper_cache_misses_total", "counter", "What was not, by cache."}, "cache", map[string]int64{
		"config": r.keeper.ConfigMisses, "totals": r.keeper.TotalMisses, "revocations": r.logins.RevocationReads, "tokens": r.tokens.TokenChecks,
	})
}

// writeQuotas writes how near quotas are, by label.
func (m *metrics) writeQuotas(w io.Writer, percent map[string]float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	by(w, family{"dynalimit_keeper_quota_used_percent", "gauge", "The highest use of a quota among the apps that asked here in the last ten minutes, by label."}, "label", m.quotas.bounded(percent))
}

// writeOwn writes what the process counted itself.
func (m *metrics) writeOwn(w io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seconds := family{"dynalimit_keeper_request_seconds", "histogram", "How long requests took, by route, method and status."}
	seconds.head(w)
	for _, k := range slices.SortedFunc(maps.Keys(m.served), func(a, b servedKey) int {
		return cmp.Or(cmp.Compare(a.route, b.route), cmp.Compare(a.method, b.method), cmp.Compare(a.status, b.status))
	}) {
		m.served[k].write(w, seconds.name, labelled("route", k.route, "method", k.method, "status", strconv.Itoa(k.status)))
	}
	by(w, family{"dynalimit_keeper_denials_total", "counter", "Requests that were answered with 429: for a quota, or for failed logins."}, "kind", m.denials)
	thresholds, flips := map[string]int64{}, int64(0)
	for k, n := range m.events {
		if k.kind == budget.EventThreshold {
			thresholds[strconv.FormatInt(k.percent, 10)] += n
		} else {
			flips += n
		}
	}
	by(w, family{"dynalimit_keeper_quota_thresholds_total", "counter", "Quotas that were used to a percentage, as this process was told."}, "percent", thresholds)
	family{"dynalimit_keeper_flips_total", "counter", "Apps that moved to another label, as this process was told."}.one(w, float64(flips))
	family{"dynalimit_keeper_sweeping", "gauge", "1 in the one process that closes days."}.one(w, number(m.leading))
	by(w, family{"dynalimit_keeper_sweeps_total", "counter", "Sweeps of this process, by result."}, "result", m.sweeps)
	by(w, family{"dynalimit_keeper_price_refreshes_total", "counter", "Refreshes of prices, by result."}, "result", m.refreshes)
	family{"dynalimit_keeper_prices_accepted_total", "counter", "Prices that refreshes took from the list."}.one(w, float64(m.accepted))
	family{"dynalimit_keeper_prices_held", "gauge", "Prices that the last refresh held back; the log has each with its reason."}.one(w, float64(m.held))
	m.age(w, "dynalimit_keeper_sweep_lag_seconds", "Time since this process last swept; none if it never did.", m.swept)
	m.age(w, "dynalimit_keeper_price_lag_seconds", "Time since this process last refreshed prices; none if it never did.", m.refreshed)
}

// age writes the time since something; nothing if it never was.
func (m *metrics) age(w io.Writer, name, help string, since time.Time) {
	if !since.IsZero() {
		family{name, "gauge", help}.one(w, max(m.now().Sub(since).Seconds(), 0))
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// operations serves /metrics, /live and /ready.
func (s *Service) operations() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var text bytes.Buffer
		dropped, _ := s.logDropped()
		s.metrics.write(&text, readings{s.ready(), s.keeper.Health(), s.keeper.Stats(), s.store.Stats(), s.handler.Stats(), dropped})
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = text.WriteTo(w) // who asked may be gone
	})
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		if _, dropping := s.logDropped(); dropping { // no reason to send requests elsewhere: where the same reads the log, all would be out
			fmt.Fprintln(w, "lines of the log are dropped: whatever reads it is too slow, or gone")
		}
	})
	return mux
}

// logDropped is what the log says of itself.
func (s *Service) logDropped() (lines int64, dropping bool) {
	if s.parts.Log == nil {
		return 0, false
	}
	return s.parts.Log.Dropped()
}
