package console_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/console"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/testworld/spend"
)

// TestPagesKeepTheirBudget: requests, read units and bytes of each page, once the shared configuration is known. No
// page writes.
func TestPagesKeepTheirBudget(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 10_000 })
	o.get("/plans")
	for _, c := range []struct {
		path     string
		requests int64
		units    float64
	}{
		{"/", 13, 40},
		{"/entities", 10, 40},
		{"/entities?q=globex.r", 20, 60},
		{"/entity/acme.search.prod", 18, 30},
		{"/entity/acme", 15, 40},
		{"/models", 5, 10},
		{"/plans", 8, 12},
		{"/alerts", 14, 40},
		{"/alerts?state=waiting", 5, 30},
		{"/alerts?entity=acme.search.prod", 2, 10},
		{"/audit", 18, 30},
	} {
		answer, used := o.get(c.path)
		assert.Equal(t, http.StatusOK, answer.Code, c.path)
		t.Logf("%-26s %3d requests %5.1f read units %6d bytes", c.path, used.Requests(), used.ReadUnits(), answer.Body.Len())
		assert.LessOrEqual(t, used.Requests(), c.requests, c.path)
		assert.LessOrEqual(t, used.ReadUnits(), c.units, c.path)
		assert.Less(t, answer.Body.Len(), 300_000, c.path)
		assert.Zero(t, used.WriteUnits(), c.path)
		assert.NotContains(t, answer.Body.String(), " style=", c.path)
		assert.NotContains(t, answer.Body.String(), "<script>alert", c.path)
		o.SetTime(o.Now().Add(3 * time.Second)) // shared buckets end
	}
}

// TestManyEntitiesCostNoMore: a team with 100,000 keys. Pages and their polls keep the budgets of few.
func TestManyEntitiesCostNoMore(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 10_000 })
	o.addKeys(t, "acme.search", 100_000)
	o.get("/plans")
	for _, c := range []struct {
		path            string
		requests        int64
		units, ofMinute float64
		every           time.Duration
	}{
		{"/", 20, 60, 120, 15 * time.Second},
		{"/entities?open=acme&open=acme.search", 20, 120, 120, 15 * time.Second},
		{"/entities?q=acme.search.k05", 24, 120, 120, 15 * time.Second},
		{"/entities?all=1", 20, 120, 120, 15 * time.Second},
		{"/entity/acme.search", 20, 120, 120, 5 * time.Second},
		{"/entity/acme.search?after=acme.search.k050000", 20, 120, 120, 5 * time.Second},
		{"/entity/acme.search.k099999", 20, 30, 120, 5 * time.Second},
	} {
		answer, used := o.get(c.path)
		require.Equal(t, http.StatusOK, answer.Code, c.path)
		sign := "?"
		if strings.Contains(c.path, "?") {
			sign = "&"
		}
		ofMinute := 0.0
		for range int(time.Minute / c.every) {
			o.SetTime(o.Now().Add(c.every))
			_, poll := o.get(c.path + sign + "poll=1")
			ofMinute += poll.ReadUnits()
		}
		t.Logf("%-48s %3d requests %5.1f read units %5.1f a minute %6d bytes", c.path, used.Requests(), used.ReadUnits(), ofMinute, answer.Body.Len())
		assert.LessOrEqual(t, used.Requests(), c.requests, c.path)
		assert.LessOrEqual(t, used.ReadUnits(), c.units, c.path)
		assert.LessOrEqual(t, ofMinute, c.ofMinute, c.path)
		assert.Less(t, answer.Body.Len(), 300_000, c.path)
	}
}

// TestOpenPagesCostLittle: at most 120 read units a minute, polls and all.
func TestOpenPagesCostLittle(t *testing.T) {
	o := newOffice(t, nil)
	for path, every := range map[string]time.Duration{"/?poll=1": 15 * time.Second, "/entities?poll=1": 15 * time.Second, "/entities?all=1&poll=1": 15 * time.Second, "/entity/acme.search.prod?poll=1": 5 * time.Second} {
		o.get(strings.Replace(path, "poll=1", "", 1))
		const minutes = 6
		units := 0.0
		for range int(minutes * time.Minute / every) {
			o.SetTime(o.Now().Add(every))
			answer, used := o.get(path)
			require.Equal(t, http.StatusOK, answer.Code, path)
			units += used.ReadUnits()
		}
		t.Logf("%-32s %5.1f read units a minute", path, units/minutes)
		assert.LessOrEqual(t, units/minutes, 120.0, path)
	}
}

// TestPollsTellWhatChanged: the cells of the page, after a call.
func TestPollsTellWhatChanged(t *testing.T) {
	o := newOffice(t, nil)
	used := func() string {
		o.SetTime(o.Now().Add(5 * time.Second))
		answer, _ := o.get("/entity/acme.search.prod?poll=1")
		var body struct {
			Cells []struct{ K, T string }
		}
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &body))
		for _, c := range body.Cells {
			if c.K == "u acme.search all usd" {
				return c.T
			}
		}
		return "not told"
	}
	before := used()
	o.CallNow("acme.search.ann", 1.25)
	assert.NotEqual(t, before, used())
	assert.NotEqual(t, "not told", before)
}

// TestWindowThatIsOverCountsZero: nobody has called since midnight.
func TestWindowThatIsOverCountsZero(t *testing.T) {
	o := newOffice(t, nil)
	o.SetTime(o.Now().Add(12 * time.Hour))
	answer, _ := o.get("/entity/acme")
	assert.Contains(t, answer.Body.String(), `<span data-k="u acme all usd">$0.00</span>`)
	assert.NotContains(t, answer.Body.String(), `<span data-k="u acme all usd-month">$0.00</span>`)
}

// TestStatesAreOfTheWholeChain: a key of a spent organisation, a blocked key, a hostile name, an unknown entity.
func TestStatesAreOfTheWholeChain(t *testing.T) {
	o := newOffice(t, nil)
	body := func(path string) string {
		answer, _ := o.get(path)
		require.Equal(t, http.StatusOK, answer.Code, path)
		return answer.Body.String()
	}
	assert.Contains(t, body("/entity/initech.sandbox.ci"), ">Blocked<")
	assert.Contains(t, body("/entity/initech.sandbox.ann"), "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;")
	assert.Contains(t, body("/entity/nobody"), "There is no record of nobody")
	assert.Contains(t, body("/entity/acme.search.prod"), "tpm of the plan pro")
	ctx := t.Context()
	require.NoError(t, o.Admin.Limits.SetBlocked(ctx, admin.Scope{Entity: "initech"}, true))
	_, err := o.Admin.Buckets.Reset(ctx, "acme", "all", "")
	require.NoError(t, err)
	lease, err := o.Limiter.Acquire(ctx, "acme", spend.Models[0], dynalimit.Amounts{"usd": dynalimit.Dollars(150)})
	require.NoError(t, err)
	require.NoError(t, lease.Settle(ctx, nil))
	o.SetTime(o.Now().Add(5 * time.Minute))
	assert.Contains(t, body("/entity/acme.search.prod"), ">acme is spent<")
	assert.Contains(t, body("/entities?q=initech.mobile"), ">Blocked by initech<")

	o.access.Under = "acme.search"
	under := body("/entity/acme.search.prod")
	assert.Contains(t, under, ">A level above is spent<")
	assert.NotContains(t, under, "acme is spent")
}

// TestVisitorsOfASubtreeSeeNothingElse: on every route, with every parameter.
func TestVisitorsOfASubtreeSeeNothingElse(t *testing.T) {
	o := newOffice(t, func(o *console.Options) {
		o.ReadUnits = 1e6
		o.Doctor = nil
	})
	o.CloseAlerts()
	o.access = console.Access{Principal: "ops", Change: true}
	known := map[string]bool{}
	for todo := []string{"/", "/entities?q=a", "/entities?all=1", "/doctor", "/alerts", "/alerts?entity=acme", "/alerts?entity=acme.search&state=waiting", "/alerts?entity=a%20b", "/entity/acme.search", "/entity/acme.search.prod", "/entity/acme", "/entity/globex.it.ann", "/entity/acme.search?after=acme.search.b", "/entity/nobody", "/nothing", "/entity/", "/entity/a%20b"}; len(todo) > 0; todo = todo[1:] {
		path := todo[0]
		if known[path] {
			continue
		}
		known[path] = true
		answer, _ := o.get(path)
		if len(known) < 300 {
			todo = append(todo, routes(answer.Body.String())...)
		}
	}
	assert.Greater(t, len(known), 80)
	o.access = console.Access{Principal: "lead", Under: "acme.search", Change: true}
	foreign := []string{"globex", "initech", "acme.growth", "acme.platform", "acme.support", "Acme Corporation", "/entity/acme\"", ">acme<", "acme ", "$150", "$2,400", "mira@", "ops@", "oncall@"}
	visible, forms := 0, 0
	for path := range known {
		for _, suffix := range []string{"", "?poll=1", "/usage.csv"} {
			if suffix == "/usage.csv" && (!strings.HasPrefix(path, "/entity/") || strings.Contains(path, "?")) {
				continue
			}
			if suffix == "?poll=1" && strings.Contains(path, "?") {
				suffix = "&poll=1"
			}
			answer, _ := o.get(path + suffix)
			inside := strings.HasPrefix(path, "/entity/acme.search") && !strings.HasPrefix(path, "/entity/acme.search/change/") ||
				strings.HasPrefix(path, "/alerts") && !strings.Contains(strings.ReplaceAll(path, "entity=acme.search", ""), "entity=")
			switch {
			case inside && answer.Code == http.StatusOK:
				visible++
			case path == "/":
				assert.Equal(t, http.StatusSeeOther, answer.Code)
				assert.Equal(t, "/entity/acme.search", answer.Header().Get("Location"))
			default:
				assert.Equal(t, http.StatusNotFound, answer.Code, path+suffix)
			}
			for _, text := range foreign {
				assert.NotContains(t, answer.Body.String(), text, path+suffix)
			}
		}
		if !strings.Contains(path, "/change/") {
			continue
		}
		for _, target := range []string{"", "all", "all ", "all usd", "all rpm", "gpt-4.1"} {
			answer, used := o.post(path, url.Values{"target": {target}, "amount": {"700"}, "until": {"2026-11-28T09:00"}})
			assert.Zero(t, used.WriteUnits(), path)
			if strings.Contains(answer.Body.String(), `name="token"`) {
				forms++
				answer, _ = o.post(path, secondForm(t, answer))
			} else if !strings.HasPrefix(path, "/entity/acme.search.") {
				assert.Equal(t, http.StatusNotFound, answer.Code, path)
			}
			for _, text := range foreign {
				assert.NotContains(t, answer.Body.String(), text, path+" "+target)
			}
		}
	}
	assert.GreaterOrEqual(t, visible, 12)
	assert.GreaterOrEqual(t, forms, 12)
	for e, err := range o.Admin.AuditEvents(t.Context(), audit.Query{Principal: "lead"}) {
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(e.Target, "acme.search."), e.Target)
	}
}

// TestRequestsOfOthersAreRefused: another Host, another origin, other methods, and who may not.
func TestRequestsOfOthersAreRefused(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.Hosts = []string{"limits.example", "::1"} })
	send := func(method, host string, headers map[string]string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://x/doctor", nil)
		r.Host = host
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		answer, used := o.send(r)
		if answer.Code != http.StatusOK {
			assert.Zero(t, used.Requests())
		}
		return answer
	}
	for host, code := range map[string]int{
		"limits.example": 404, "LIMITS.example:8443": 404, "[::1]:7777": 404, "": 421, "evil.example": 421, "limits.example.evil.com": 421, "127.0.0.1": 421, "localhost": 421, ":80": 421,
	} {
		answer := send(http.MethodGet, host, nil)
		assert.Equal(t, code, answer.Code, host)
		assert.Contains(t, answer.Header().Get("Content-Security-Policy"), "default-src 'none'", "every answer has it")
		assert.NotContains(t, answer.Body.String(), "limits.example", "the list of hosts is not told")
	}
	for name, headers := range map[string]map[string]string{
		"another page": {"Sec-Fetch-Site": "cross-site"}, "another port": {"Sec-Fetch-Site": "same-site"}, "an older browser": {"Origin": "http://127.0.0.1:3000"},
	} {
		assert.Equal(t, http.StatusForbidden, send(http.MethodPost, "limits.example", headers).Code, name)
	}
	// A proxy that replaces the Host is refused. One that keeps it works, also for browsers that send an Origin alone.
	o.access.Change = true
	for host, code := range map[string]int{"10.0.0.5:8080": http.StatusMisdirectedRequest, "limits.example": http.StatusUnprocessableEntity} {
		r := httptest.NewRequest(http.MethodPost, "http://x/entity/acme/change/grant", nil)
		r.Host = host
		r.Header.Set("Origin", "https://limits.example")
		r.Header.Set("X-Forwarded-Host", "limits.example")
		answer, _ := o.send(r)
		assert.Equal(t, code, answer.Code, host)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		r := httptest.NewRequest(method, "http://limits.example/entities", nil)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		answer, _ := o.send(r)
		assert.Equal(t, http.StatusMethodNotAllowed, answer.Code, method)
	}
	for err, code := range map[error]int{console.ErrLogin: 401, errors.New("a secret reason"): 403} {
		o.err = err
		for _, path := range []string{"/", "/static/x.css", "/?poll=1", "/entity/acme/usage.csv"} {
			r := httptest.NewRequest(http.MethodGet, "http://limits.example"+path, nil)
			answer, used := o.send(r)
			assert.Equal(t, code, answer.Code, path)
			assert.NotContains(t, answer.Body.String(), "secret")
			assert.Zero(t, used.Requests())
		}
	}
}

// TestConsoleBelowAPrefix: with and without http.StripPrefix all addresses lie below it.
func TestConsoleBelowAPrefix(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.Prefix = "/limits/" })
	whole := o.handler
	for name, handler := range map[string]http.Handler{"whole": whole, "stripped": http.StripPrefix("/limits/", whole), "slash": http.StripPrefix("/limits", whole)} {
		o.handler = handler
		for _, path := range []string{"/limits/", "/limits/entities"} {
			answer, _ := o.get(path)
			require.Equal(t, http.StatusOK, answer.Code, name+path)
			for _, part := range strings.Split(answer.Body.String(), `href="`)[1:] {
				assert.True(t, strings.HasPrefix(part, "/limits/") || strings.HasPrefix(part, "#"), part[:20])
			}
		}
	}
}

// TestOptionsAreChecked: before anything is served.
func TestOptionsAreChecked(t *testing.T) {
	o := newOffice(t, nil)
	who := func(*http.Request) (console.Access, error) { return console.Access{}, nil }
	for field, opts := range map[string]*console.Options{
		"options.Authorize": {}, "options.Prefix": {Authorize: who, Prefix: "limits"}, "options.ReadUnits": {Authorize: who, ReadUnits: -1}, "options.Hosts": {Authorize: who, Hosts: []string{"a b/"}},
	} {
		_, err := console.New(o.Repo, nil, opts)
		var bad *dynalimit.ValidationError
		require.ErrorAs(t, err, &bad, field)
		assert.Equal(t, field, bad.Field)
	}
}

// TestReadUnitsAreShared: one visitor gets a quarter while others ask, and the last values above it.
func TestReadUnitsAreShared(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 250 })
	o.get("/entity/globex.it")
	o.access.Principal = "greedy"
	refused := 0
	for i := range 40 {
		o.SetTime(o.Now().Add(700 * time.Millisecond))
		answer, _ := o.get("/entity/acme.search." + []string{"prod", "ann", "joao", "ci", "batch"}[i%5])
		switch {
		case answer.Code == http.StatusTooManyRequests:
			refused++
			assert.NotEmpty(t, answer.Header().Get("Retry-After"))
		case strings.Contains(answer.Body.String(), "has used its read units"):
			refused++
			assert.Contains(t, answer.Body.String(), " old.", "the last values")
		}
	}
	assert.Positive(t, refused)
	o.access.Principal = "ann"
	answer, _ := o.get("/entity/globex.it")
	assert.Equal(t, http.StatusOK, answer.Code)
}

// TestFloodLeavesReadUnits: a visitor who asks for more from the first second of each minute on leaves others theirs.
func TestFloodLeavesReadUnits(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 250 })
	var answers []int
	for range 3 {
		o.SetTime(o.Now().Truncate(time.Minute).Add(time.Minute))
		o.access.Principal = "greedy"
		for n := range 300 {
			o.get(fmt.Sprintf("/entity/nobody-%d", n))
		}
		o.access.Principal = "ann"
		last, _ := o.get("/entity/globex.it")
		answers = append(answers, last.Code)
	}
	assert.Equal(t, []int{http.StatusOK, http.StatusOK}, answers[1:], "the first minute knows no others yet")
}

// TestLongAddressesAreRefused: links of a page repeat its query.
func TestLongAddressesAreRefused(t *testing.T) {
	o := newOffice(t, nil)
	for _, path := range []string{"/entities?open=", "/audit?by=", "/entity/acme?poll=1&x="} {
		answer, used := o.get(path + strings.Repeat("a", 9000))
		assert.Equal(t, http.StatusRequestURITooLong, answer.Code, path)
		assert.Zero(t, used.Requests())
	}
}

// TestSilentTableShowsTheLastValues: with their age; without any, the state alone.
func TestSilentTableShowsTheLastValues(t *testing.T) {
	o := newOffice(t, nil)
	o.get("/")
	o.SetTime(o.Now().Add(4 * time.Minute))
	o.DB.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
	answer, _ := o.get("/")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Contains(t, answer.Body.String(), "does not answer")
	assert.Contains(t, answer.Body.String(), "4 min old")
	assert.Contains(t, answer.Body.String(), "Silent")
	answer, _ = o.get("/entities?q=zz")
	assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
}

// TestCSVHasExactAmounts: in dollars, with the day, and money by model: the sums are those of the reader.
func TestCSVHasExactAmounts(t *testing.T) {
	o := newOffice(t, nil)
	answer, _ := o.get("/entity/acme/usage.csv")
	assert.Equal(t, "text/csv; charset=utf-8", answer.Header().Get("Content-Type"))
	assert.Contains(t, answer.Header().Get("Content-Disposition"), "attachment")
	lines, err := csv.NewReader(answer.Body).ReadAll()
	require.NoError(t, err)
	assert.Equal(t, "day,entity,resource,limit,unit,model,amount,final", strings.Join(lines[0], ","))
	sums, models := map[string]float64{}, map[string]bool{}
	for _, l := range lines[1:] {
		amount, err := strconv.ParseFloat(l[6], 64)
		require.NoError(t, err)
		sums[strings.Join(l[:4], " ")] += amount
		models[l[5]] = true
		assert.True(t, l[5] == "" || l[4] == dynalimit.USD, "%v", l)
	}
	for _, model := range spend.Models {
		assert.True(t, models[model], model)
	}
	q := aggregator.Query{Window: aggregator.Day, From: o.Now().AddDate(0, 0, -90), To: o.Now().Truncate(24 * time.Hour)}
	for u, err := range o.Reader.Entity(t.Context(), "acme", q) {
		require.NoError(t, err)
		for _, l := range u.Limits {
			key, unit := strings.Join([]string{u.Start.Format(time.DateOnly), "acme", u.Resource, l.Limit}, " "), 1e3
			if strings.HasPrefix(l.Limit, "usd") {
				unit = 1e9
			}
			assert.InDelta(t, float64(l.Consumed)/unit, sums[key], 1e-6, key)
			delete(sums, key)
		}
	}
	assert.Empty(t, sums)
}
