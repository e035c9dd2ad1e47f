package httplimit_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/httplimit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a table, a limiter on it and a clock that stands still until it is advanced.
type world struct {
	t       testing.TB
	db      *ddbmem.DB
	repo    *dynalimit.Repository
	limiter *dynalimit.RateLimiter
	ns      atomic.Int64
}

// newWorld has two requests a minute, unless other limits are given.
func newWorld(t testing.TB, limits ...dynalimit.Limit) *world {
	t.Helper()
	if limits == nil {
		limits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 2)}
	}
	w := &world{t: t}
	w.advance(time.Duration(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).UnixNano()))
	now := func() time.Time { return time.Unix(0, w.ns.Load()).UTC() }
	w.db = testworld.NewMem(t, ddbmem.WithClock(now))
	var err error
	w.repo, err = dynalimit.NewRepository(w.db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com", Now: now})
	require.NoError(t, err)
	require.NoError(t, w.repo.CreateTable(t.Context()))
	w.limiter, err = dynalimit.New(w.repo, &dynalimit.Options{Limits: limits})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.limiter.Close(context.WithoutCancel(t.Context()))) })
	return w
}

func (w *world) advance(d time.Duration) { w.ns.Add(int64(d)) }

// admin changes what is configured.
func (w *world) admin() *admin.Admin { return admin.New(w.repo) }

// silence makes the store silent.
func (w *world) silence() {
	w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
}

// used is what an entity has used of its two requests.
func (w *world) used(entity string) int64 {
	w.t.Helper()
	report, err := w.limiter.Check(w.t.Context(), entity, "http", nil)
	require.NoError(w.t, err)
	return report.Statuses[0].Limit.Burst - report.Statuses[0].Remaining
}

// buckets counts the items of buckets by their partition key.
func (w *world) buckets() map[string]int {
	w.t.Helper()
	out, err := w.db.Client().Scan(w.t.Context(), &dynamodb.ScanInput{TableName: aws.String("limits")})
	require.NoError(w.t, err)
	found := map[string]int{}
	for _, item := range out.Items {
		if strings.HasPrefix(text(item["SK"]), "#BUCKET#") {
			found[text(item["PK"])]++
		}
	}
	return found
}

func text(v types.AttributeValue) string {
	s, _ := v.(*types.AttributeValueMemberS)
	return s.Value
}

// handler is next behind a middleware.
func (w *world) handler(next http.HandlerFunc, o httplimit.Options) http.Handler {
	w.t.Helper()
	limit, err := httplimit.New(w.limiter, &o)
	require.NoError(w.t, err)
	return limit(next)
}

// server serves a handler over a connection.
func (w *world) server(h http.Handler) *httptest.Server {
	w.t.Helper()
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	return s
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }

// byUser charges the entity that a header names, whoever it is.
var byUser = httplimit.Options{
	Key:   func(r *http.Request) string { return r.Header.Get("User") },
	Known: func(key string) bool { return !strings.HasPrefix(key, "unknown") },
}

// ask makes a request of a user.
func ask(h http.Handler, user string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/items/7", nil)
	r.Header.Set("User", user)
	return do(h, r)
}

func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// problem is the body of a request that was not served.
func problem(t testing.TB, w *httptest.ResponseRecorder) (d httplimit.Denial) {
	t.Helper()
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d))
	assert.Equal(t, w.Code, d.Status)
	return d
}

func TestAPIKey(t *testing.T) {
	want := httplimit.HashKey("secret")
	assert.Regexp(t, "^key-[0-9a-f]{32}$", want)
	for _, test := range []struct {
		header, want string
		values       []string
	}{
		{"Authorization", want, []string{"Bearer secret"}},
		{"authorization", want, []string{"bearer  secret"}},
		{"X-Api-Key", want, []string{"secret"}},
		{"X-Api-Key", "", nil},
		{"X-Api-Key", "", []string{""}},
		{"Authorization", "", []string{"Bearer "}},
		{"X-Api-Key", "", []string{"secret", "another"}},
		{"X-Api-Key", "", []string{strings.Repeat("x", 1025)}},
		{"X-Api-Key", httplimit.HashKey(strings.Repeat("x", 1024)), []string{strings.Repeat("x", 1024)}},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		for _, v := range test.values {
			r.Header.Add(test.header, v)
		}
		assert.Equal(t, test.want, httplimit.APIKey(test.header)(r), "%s %.30q", test.header, test.values)
	}
}

func TestAddress(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	mapped := []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}
	for _, test := range []struct {
		name, peer, want string
		forwarded        []string
		trusted          []netip.Prefix
	}{
		{"the peer", "203.0.113.7:80", "ip:203.0.113.7", nil, nil},
		{"nobody is trusted", "10.0.0.1:80", "ip:10.0.0.1", []string{"198.51.100.1"}, nil},
		{"a stranger's header", "203.0.113.7:80", "ip:203.0.113.7", []string{"198.51.100.1"}, proxies},
		{"a proxy", "10.0.0.1:80", "ip:198.51.100.1", []string{"198.51.100.1"}, proxies},
		{"what the client wrote", "10.0.0.1:80", "ip:198.51.100.1", []string{"192.0.2.1, nonsense, 198.51.100.1"}, proxies},
		{"proxies in a row", "10.0.0.1:80", "ip:198.51.100.1", []string{"192.0.2.1,198.51.100.1", "10.0.0.3 , fd00::2"}, proxies},
		{"proxies alone", "10.0.0.1:80", "ip:10.0.0.3", []string{"10.0.0.3, 10.0.0.2"}, proxies},
		{"a proxy's nonsense", "10.0.0.1:80", "", []string{"198.51.100.1, unknown"}, proxies},
		{"no header", "10.0.0.1:80", "ip:10.0.0.1", nil, proxies},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:80", "ip:198.51.100.1", []string{"::ffff:198.51.100.1"}, proxies},
		{"a network of IPv6", "[2001:db8:1:2:3:4:5:6]:80", "ip:2001:db8:1:2::", nil, nil},
		{"a zone", "[fe80::1%eth0]:80", "ip:fe80::", nil, nil},
		{"no address", "@", "", nil, nil},
		{"a port", "10.0.0.1:80", "ip:203.0.113.7", []string{"203.0.113.7:51234, 10.0.0.2:80"}, proxies},
		{"brackets", "10.0.0.1:80", "ip:2001:db8::", []string{"[2001:db8::7]"}, proxies},
		{"brackets with a port", "10.0.0.1:80", "ip:2001:db8::", []string{"[2001:db8::7]:51234"}, proxies},
		{"brackets that stay open", "10.0.0.1:80", "", []string{"[2001:db8::7"}, proxies},
		{"a port that is none", "10.0.0.1:80", "", []string{"203.0.113.7:https"}, proxies},
		{"proxies of IPv4, written as IPv6", "10.0.0.1:80", "ip:203.0.113.7", []string{"203.0.113.7"}, mapped},
		{"IPv4 translated to IPv6", "[64:ff9b::203.0.113.7]:80", "ip:203.0.113.7", nil, nil},
		{"translated addresses are no proxies", "[64:ff9b::10.0.0.1]:80", "ip:10.0.0.1", []string{"203.0.113.7"}, proxies},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = test.peer
		for _, v := range test.forwarded {
			r.Header.Add("X-Forwarded-For", v)
		}
		assert.Equal(t, test.want, httplimit.Address(test.trusted...)(r), test.name)
	}
}

// TestAddressBehindUnixSocket: the peer of a Unix socket is on this machine. It names its callers
// only where 127.0.0.1 is trusted.
func TestAddressBehindUnixSocket(t *testing.T) {
	for _, test := range []struct{ trusted, want string }{
		{"127.0.0.0/8", "ip:203.0.113.7"},
		{"10.0.0.0/8", "ip:127.0.0.1"},
	} {
		key := httplimit.Address(netip.MustParsePrefix(test.trusted))
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, key(r)) }))
		require.NoError(t, s.Listener.Close())
		path := filepath.Join(t.TempDir(), "s")
		var err error
		s.Listener, err = (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
		require.NoError(t, err)
		s.Start()
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET / HTTP/1.0\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n")
		require.NoError(t, err)
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.True(t, strings.HasSuffix(string(answer), "\r\n\r\n"+test.want), "%s", answer)
		require.NoError(t, conn.Close())
		s.Close()
	}
}

func TestRoute(t *testing.T) {
	mux := http.NewServeMux()
	inside := httplimit.Route(nil)
	long := "/" + strings.Repeat("a", 300)
	for _, pattern := range []string{"GET /items/{id}", "/any/{path...}", "GET  example.com/x", "POST /exact/{$}", "GET " + long, "PUT " + long, "!X /items/{id}"} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(inside(r))) })
	}
	around := httplimit.Route(mux)
	for _, test := range []struct{ method, url, want string }{
		{"GET", "/items/7", "GET/items/_id_"},
		{"PUT", "/any/thing/there", "any/any/_path..._"},
		{"GET", "http://example.com/x", "GET-example.com/x"},
		{"POST", "/exact/", "POST/exact/___"},
		{"GET", long, "x56bd6ac8bbde22dc-" + strings.Repeat("a", 238)},
		{"PUT", long, "x08f293a8afeff62f-" + strings.Repeat("a", 238)},
		{"!X", "/items/7", "xX/items/_id_"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), test.method, test.url, nil)
		assert.Equal(t, test.want, around(r))
		assert.Equal(t, test.want, do(mux, r).Body.String())
		assert.Empty(t, schema.ResourceRule.Check(around(r)))
	}
	for _, url := range []string{"/none", "/items/7/8"} {
		assert.Equal(t, "unrouted", around(httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)))
	}
	assert.Equal(t, "unrouted", around(httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/items/7", nil)))
}
