package keeper

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// TestServiceFinishesWhatIsUnderWay: after the signal /ready says no, and a call that is under
// way is counted and answered.
func TestServiceFinishesWhatIsUnderWay(t *testing.T) {
	waiting, let := make(chan struct{}), make(chan struct{})
	r := start(t, nil, func(s *Service) {
		next := s.api.Handler
		s.api.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/usage") { // not held at DynamoDB, whose time is short
				close(waiting)
				<-let
			}
			next.ServeHTTP(w, q)
		})
	})
	token := r.login(t)
	status, _ := r.get(t, r.MetricsURL()+"/ready")
	require.Equal(t, http.StatusOK, status)

	type reply struct {
		status int
		body   string
		err    error
	}
	answered := make(chan reply, 1)
	go func() {
		status, body, err := r.post(r.URL()+"/api/v1/orgs/"+demoOrg+"/apps/"+demoApp+"/usage", token, fmt.Sprintf(
			`{"request_id":%q,"model_label":"premium","tokens":{"input":1,"output":1},"status":"OK","timestamp":%q}`, requestID(), time.Now().UTC().Format(time.RFC3339)))
		answered <- reply{status, body, err}
	}()
	<-waiting
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	require.Eventually(t, func() bool {
		status, _ := r.get(t, r.MetricsURL()+"/ready")
		return status == http.StatusServiceUnavailable
	}, time.Minute, time.Millisecond)
	status, _ = r.get(t, r.MetricsURL()+"/live")
	assert.Equal(t, http.StatusOK, status, "it lives while it ends")
	select {
	case err := <-stopped:
		assert.Fail(t, "it ended before its request", err)
	default:
	}
	close(let)
	got := <-answered
	require.NoError(t, got.err)
	assert.Equal(t, http.StatusAccepted, got.status, got.body)
	require.NoError(t, <-stopped)
}

// TestServiceIsReadyWhileItServes: an outage of DynamoDB takes no process from its load
// balancer as long as models are chosen without it.
func TestServiceIsReadyWhileItServes(t *testing.T) {
	for policy, want := range map[budget.Policy]int{"": http.StatusOK, budget.Refuse: http.StatusServiceUnavailable} {
		r := start(t, func(c *Config) { c.OnUnavailable.Recommend = Policy(policy) }, nil)
		token := r.login(t)
		selected := func() {
			q, err := http.NewRequest(http.MethodGet, r.URL()+"/api/v1/orgs/"+demoOrg+"/apps/"+demoApp+"/model-selection?force_check=true", nil) //nolint:noctx // this machine
			require.NoError(t, err)
			q.Header.Set("Authorization", "Bearer "+token)
			answer, err := r.http.Do(q)
			require.NoError(t, err)
			answer.Body.Close()
		}
		selected() // so that it is known that the token was not revoked
		r.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
		require.Eventually(t, func() bool {
			selected()
			return r.keeper.Health().Open
		}, time.Minute, 10*time.Millisecond)
		status, _ := r.get(t, r.MetricsURL()+"/ready")
		assert.Equal(t, want, status, policy)
		status, _ = r.get(t, r.MetricsURL()+"/live")
		assert.Equal(t, http.StatusOK, status)
		r.db.SetFaults(nil)
		require.Eventually(t, func() bool { status, _ := r.get(t, r.MetricsURL()+"/ready"); return status == http.StatusOK }, time.Minute, 20*time.Millisecond)
	}
}

// TestServiceCutsSlowAndLargeHeaders: who does not send a header in time, or sends too
// much of it, is cut off.
func TestServiceCutsSlowAndLargeHeaders(t *testing.T) {
	dial := func(change func(*Service)) net.Conn {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(start(t, nil, change).URL(), "http://"))
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		t.Cleanup(func() { c.Close() })
		return c
	}
	slow := dial(func(s *Service) {
		require.Equal(t, headerTime, s.api.ReadHeaderTimeout)
		require.Equal(t, headerTime, s.operating.ReadHeaderTimeout)
		for _, server := range []*http.Server{s.api, s.operating} { // as docs/keeper.md says
			require.Equal(t, []time.Duration{15 * time.Second, 30 * time.Second, time.Minute}, []time.Duration{server.ReadTimeout, server.WriteTimeout, server.IdleTimeout})
			require.Equal(t, 16<<10, server.MaxHeaderBytes)
		}
		s.api.ReadHeaderTimeout = 50 * time.Millisecond
	})
	_, err := io.WriteString(slow, "GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	require.NoError(t, err)
	_, err = io.ReadAll(slow)
	var late net.Error
	assert.False(t, errorsAsTimeout(err, &late), "it is still open: %v", err)

	large := dial(nil) // which has the time that it takes
	_, err = io.WriteString(large, "GET /health HTTP/1.1\r\nHost: x\r\nX-Large: "+strings.Repeat("x", 2*headerBytes)+"\r\n\r\n")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(large), nil)
	require.NoError(t, err)
	defer answer.Body.Close()
	assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, answer.StatusCode)
}

func errorsAsTimeout(err error, to *net.Error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // what a connection returns is not wrapped
	*to = e
	return ok && e.Timeout()
}

// TestServiceSpeaksTLS: with a certificate nothing is answered in the clear, and nothing
// older than TLS 1.2.
func TestServiceSpeaksTLS(t *testing.T) {
	files := certificateFiles(t)
	writeCertificate(t, files, 7)
	r := start(t, func(c *Config) { c.TLS = files }, nil)
	require.True(t, strings.HasPrefix(r.URL(), "https://"))
	status, _ := r.get(t, r.URL()+"/health")
	assert.Equal(t, http.StatusOK, status)
	status, body := r.get(t, strings.Replace(r.URL(), "https", "http", 1)+"/health")
	assert.Equal(t, http.StatusBadRequest, status, body)

	old := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}} //nolint:gosec // it is refused
	_, err := old.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.URL(), "https://"))
	assert.ErrorContains(t, err, "protocol version")
}

// TestServiceBoundsHTTP2: a client that speaks HTTP/2 has the bounds that others have: for a
// header, and for a body that does not come.
func TestServiceBoundsHTTP2(t *testing.T) {
	files := certificateFiles(t)
	writeCertificate(t, files, 7)
	serve := func(change func(*Service)) string {
		return start(t, func(c *Config) { c.TLS = files }, change).URL()
	}
	h2 := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true} //nolint:gosec // its own certificate
	defer h2.CloseIdleConnections()
	ask := func(url string, body io.Reader, header string) (status, version int, err error) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/auth/token", body)
		require.NoError(t, err)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-Large", header)
		answer, err := h2.RoundTrip(q)
		if err != nil {
			return 0, 0, err
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, answer.ProtoMajor, nil
	}
	url := serve(nil)
	status, version, err := ask(url, strings.NewReader("{}"), "small")
	require.NoError(t, err)
	assert.Equal(t, 2, version)
	assert.Equal(t, http.StatusBadRequest, status)
	status, _, err = ask(url, strings.NewReader("{}"), strings.Repeat("x", 2*headerBytes))
	assert.True(t, err != nil || status == http.StatusRequestHeaderFieldsTooLarge, "a header of 32 KiB")
	body, never := io.Pipe()
	defer never.Close()
	url = serve(func(s *Service) {
		require.Equal(t, readTime, s.api.ReadTimeout)
		s.api.ReadTimeout = 300 * time.Millisecond
	})
	status, _, err = ask(url, body, "small")
	assert.True(t, err != nil || status == http.StatusRequestTimeout, "a body that does not come: %d", status)
}

// TestServiceEchoesNoText: an id of a request comes back only if it can be one.
func TestServiceEchoesNoText(t *testing.T) {
	r := start(t, nil, nil)
	for id, echoed := range map[string]bool{
		"7c9e6679-7425-40de-944b-e07fc1f90ae7": true, "a.b_c": true,
		"a b": false, "a\tb": false, "<script>": false, `a"b`: false, "\u202eb": false, strings.Repeat("x", 65): false, "-a": false, "": false,
	} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+"/health", nil)
		require.NoError(t, err)
		q.Header.Set("X-Request-Id", id)
		answer, err := r.http.Do(q)
		require.NoError(t, err)
		answer.Body.Close()
		assert.Equal(t, echoed, answer.Header.Get("X-Request-Id") == id, "%q", id)
		assert.NotEmpty(t, answer.Header.Get("X-Request-Id"))
	}
}

// TestServiceThrottlesTheClientOfAProxy: failed logins count for the client that the proxy
// names, and a client cannot choose whom they count for.
func TestServiceThrottlesTheClientOfAProxy(t *testing.T) {
	r := start(t, func(c *Config) { c.BehindProxy = []string{"127.0.0.1"} }, nil)
	attempt := func(i int) int { // another client each time, and it claims another address
		q, err := http.NewRequest(http.MethodPost, r.URL()+"/auth/token", //nolint:noctx // this machine
			strings.NewReader(fmt.Sprintf(`{"client_id":"org-%s-app-nobody-%d","client_secret":"wrong"}`, demoOrg, i)))
		require.NoError(t, err)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-Forwarded-For", fmt.Sprintf("1.2.3.%d, 198.51.100.1", i))
		answer, err := r.http.Do(q)
		require.NoError(t, err)
		defer answer.Body.Close()
		return answer.StatusCode
	}
	var statuses []int
	for i := range 200 { // one more is looked at in 0.6 seconds
		statuses = append(statuses, attempt(i))
		if statuses[i] == http.StatusTooManyRequests {
			break
		}
	}
	assert.GreaterOrEqual(t, len(statuses), 101)
	assert.Contains(t, statuses, http.StatusTooManyRequests)
	text := r.scraped(t)
	assert.GreaterOrEqual(t, text[`dynalimit_keeper_denials_total{kind="login"}`], 1.0)
}

// TestServiceSharesWithOriginsItIsToldOf: no other page may read an answer.
func TestServiceSharesWithOriginsItIsToldOf(t *testing.T) {
	const console = "https://console.example.com"
	for name, test := range map[string]struct {
		origins []string
		origin  string
		want    string
	}{
		"nobody":         {nil, console, ""},
		"the one":        {[]string{console}, console, console},
		"somebody else":  {[]string{console}, "https://evil.example.com", ""},
		"another scheme": {[]string{console}, "http://console.example.com", ""},
		"no page":        {[]string{console}, "", ""},
		"a file":         {[]string{console}, "null", ""},
		"one below it":   {[]string{console}, console + ".evil.com", ""},
		"with a port":    {[]string{console}, console + ":8443", ""},
		"other case":     {[]string{console}, "https://Console.example.com", ""},
		"one of its own": {[]string{console}, "https://a.console.example.com", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, func(c *Config) { c.CORSOrigins = test.origins }, nil)
			for _, method := range []string{http.MethodGet, http.MethodOptions} {
				q, err := http.NewRequestWithContext(t.Context(), method, r.URL()+"/health", nil)
				require.NoError(t, err)
				q.Header.Set("Access-Control-Request-Method", http.MethodGet)
				if test.origin != "" {
					q.Header.Set("Origin", test.origin)
				}
				answer, err := r.http.Do(q)
				require.NoError(t, err)
				answer.Body.Close()
				assert.Equal(t, test.want, answer.Header.Get("Access-Control-Allow-Origin"), method)
				assert.NotContains(t, strings.ToLower(answer.Header.Get("Access-Control-Allow-Headers")), "x-api-key")
				assert.Equal(t, test.origins != nil, answer.Header.Get("Vary") == "Origin", "what is kept of it is for this origin")
			}
		})
	}
}

// scraped is every series with its value; it fails for text that Prometheus would refuse.
func (r *running) scraped(t *testing.T) map[string]float64 {
	t.Helper()
	status, text := r.get(t, r.MetricsURL()+"/metrics")
	require.Equal(t, http.StatusOK, status)
	series, typed, family := map[string]float64{}, map[string]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			require.NotContains(t, typed, name, "two groups of one family")
			require.Contains(t, []string{"counter", "gauge", "histogram"}, kind)
			typed[name], family = kind, name
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		require.NoError(t, err, line)
		name, labels, _ := strings.Cut(line[:at], "{")
		require.Regexp(t, `^[a-z_]+$`, name)
		if labels != "" {
			require.Regexp(t, `^[a-z_]+="[^"\\]*"(,[a-z_]+="[^"\\]*")*}$`, labels)
		}
		if typed[family] == "histogram" {
			require.Contains(t, []string{family + "_bucket", family + "_sum", family + "_count"}, name)
		} else {
			require.Equal(t, family, name, "a series below another's TYPE")
		}
		require.NotContains(t, series, line[:at], "a series twice")
		series[line[:at]] = value
	}
	return series
}

// asks asks with a token.
func (r *running) asks(t *testing.T, token, url string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	q.Header.Set("Authorization", "Bearer "+token)
	answer, err := r.http.Do(q)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

// TestServiceMeasuresItself: what was asked is in the metrics, once each.
func TestServiceMeasuresItself(t *testing.T) {
	r := start(t, func(c *Config) { c.Defaults.Staleness = Span(time.Minute) }, nil) // so that nobody looks beside those who ask
	token := r.login(t)
	for range 3 {
		status, body, err := r.post(r.URL()+"/api/v1/orgs/"+demoOrg+"/apps/"+demoApp+"/usage", token, fmt.Sprintf(
			`{"request_id":%q,"model_label":"premium","tokens":{"input":1,"output":1},"status":"OK","timestamp":%q}`, requestID(), time.Now().UTC().Format(time.RFC3339)))
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, status, body)
	}
	q, err := http.NewRequestWithContext(t.Context(), "BREW", r.URL()+"/no/such\"route", bytes.NewReader(nil))
	require.NoError(t, err)
	answer, err := r.http.Do(q)
	require.NoError(t, err)
	answer.Body.Close()

	series := r.scraped(t)
	const usage = `route="submitUsage",method="POST",status="202"`
	for name, want := range map[string]float64{
		"dynalimit_keeper_ready":                                                           1,
		"dynalimit_keeper_store_open":                                                      0,
		"dynalimit_keeper_request_seconds_count{" + usage + "}":                            3,
		"dynalimit_keeper_request_seconds_bucket{" + usage + `,le="+Inf"}`:                 3,
		`dynalimit_keeper_logins_total{result="ok"}`:                                       1,
		"dynalimit_keeper_secrets_retrieved_total":                                         1,
		`dynalimit_keeper_request_seconds_count{route="none",method="other",status="404"}`: 1,
	} {
		assert.Contains(t, series, name)
		assert.Equal(t, want, series[name], name)
	}
	assert.Greater(t, series["dynalimit_keeper_request_seconds_sum{"+usage+"}"], 0.0)
	hits, misses := series[`dynalimit_keeper_cache_hits_total{cache="totals"}`], series[`dynalimit_keeper_cache_misses_total{cache="totals"}`]
	for range 2 {
		status, body := r.asks(t, token, r.URL()+"/api/v1/orgs/"+demoOrg+"/apps/"+demoApp+"/model-selection")
		require.Equal(t, http.StatusOK, status, body)
	}
	series = r.scraped(t)
	assert.Equal(t, hits+misses+2, series[`dynalimit_keeper_cache_hits_total{cache="totals"}`]+series[`dynalimit_keeper_cache_misses_total{cache="totals"}`])
	for _, cache := range []string{"config", "totals", "revocations", "tokens"} {
		for name, least := range map[string]float64{"hits": 2, "misses": 1} {
			name = fmt.Sprintf("dynalimit_keeper_cache_%s_total{cache=%q}", name, cache)
			assert.GreaterOrEqual(t, series[name], least, name)
		}
	}
	assert.Contains(t, series, `dynalimit_keeper_quota_used_percent{label="premium"}`)
	assert.Contains(t, series, `dynalimit_keeper_quota_used_percent{label="standard"}`)
}

// TestQuotasHaveBoundedLabels: organisations may name labels as they like, and a process has
// so many series all the same, which stay the same.
func TestQuotasHaveBoundedLabels(t *testing.T) {
	var q quotas
	q.maximum = 3
	assert.Equal(t, map[string]float64{"a": 1, "b": 2}, q.boundSeries(map[string]float64{"a": 1, "b": 2}))
	assert.Equal(t, map[string]float64{"a": 1, "c": 3, others: 99.5}, q.boundSeries(map[string]float64{"a": 1, "e": 99.5, "d": 98, "c": 3}))
	assert.Equal(t, map[string]float64{"b": 0, others: 4}, q.boundSeries(map[string]float64{"b": 0, "d": 4}), "b keeps its own")
	assert.Equal(t, map[string]float64{others: 99}, q.boundSeries(map[string]float64{"d": 99, "e": 1}), "the highest of them, not the last")
	assert.Empty(t, q.boundSeries(nil))
	assert.Len(t, q.own, 3)
}

// TestServiceTakesImportedHashesWhereItIsToldOf: and then the decoy takes bcrypt's time.
func TestServiceTakesImportedHashesWhereItIsToldOf(t *testing.T) {
	assert.True(t, budgethttp.VerifyBcrypt(credentials.NewSecret(decoy), credentials.NewSecret("nobody")), "it is a hash")
	for _, told := range []bool{false, true} {
		r := start(t, func(c *Config) { c.ImportedHashes = told }, nil)
		require.NoError(t, r.store.Import(t.Context(), demoOrg, "", credentials.NewSecret(decoy)))
		status, body, err := r.post(r.URL()+"/auth/token", "", `{"client_id":"org-`+demoOrg+`","client_secret":"nobody"}`)
		require.NoError(t, err)
		assert.Equal(t, told, status == http.StatusOK, "%d %s", status, body)
	}
}
