package budgethttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/tokens"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	orgO     = "550e8400-e29b-41d4-a716-446655440000"
	orgOther = "550e8400-e29b-41d4-a716-446655440001" // exists too
	orgNone  = "550e8400-e29b-41d4-a716-44665544ffff" // does not
	appA     = "app-production-api"
	appB     = "app-batch"

	premiumModel  = "anthropic.claude-3-5-sonnet-20241022-v2:0"
	standardModel = "anthropic.claude-3-5-haiku-20241022-v1:0"
	economyModel  = "anthropic.claude-3-haiku-20240307-v1:0"
	microModel    = "amazon.nova-micro-v1:0"
)

var (
	pathA = "/api/v1/orgs/" + orgO + "/apps/" + appA
	pathB = "/api/v1/orgs/" + orgO + "/apps/" + appB
	pathO = "/api/v1/orgs/" + orgO

	fixtureNow    = time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)
	fixtureModels = map[string]string{
		"premium": premiumModel, "standard": standardModel, "economy": economyModel, "micro": microModel, "none": "nobody.knows-this",
	}
)

func fixtureOrg() budget.Org {
	return budget.Org{
		ID: orgO, Name: "sample", Timezone: "America/New_York", Scope: budget.ScopeApp,
		Ordering:    []string{"premium", "standard", "economy"},
		Quotas:      map[string]int64{"premium": 10_000_000, "standard": 5_000_000, "economy": 2_000_000},
		Enforcement: budget.Soft,
	}
}

// uuid is the n-th request id.
func uuid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

// call is U(n): 1,500 in and 800 out of premium, 16,500 µ$.
func call(n int) example {
	return example{
		"request_id": uuid(n), "model_label": "premium", "model_id": premiumModel,
		"tokens": example{"input": 1500, "output": 800}, "status": "OK", "timestamp": fixtureNow.Format(time.RFC3339),
	}
}

// but is a body with other values.
func (e example) but(values example) example {
	out := example{}
	for k, v := range e {
		out[k] = v
	}
	for k, v := range values {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = v
	}
	return out
}

// clock is a settable time.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.ns.Load()).UTC() }
func (c *clock) set(t time.Time)         { c.ns.Store(t.UnixNano()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// world is two nodes, each a keeper and a server of its own, on the same tables.
type world struct {
	t      testing.TB
	db     *ddbmem.DB // nil on a third-party engine
	client *dynamodb.Client
	clock  *clock
	tables budget.Tables
	limits string // the limiter's table
	a, b   *node
	log    *journal
	keys   *credentials.KeySet // of every node
	key    string              // a provisioning key
}

// node is one process.
type node struct {
	t      testing.TB
	keeper *budget.Keeper
	store  *credentials.Store
	server *Server
	url    string
	client *http.Client
	world  *world
	// token is who asks, unless a request says otherwise.
	token string
}

// journal keeps what is logged.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

// bearers are who may ask.
var bearers = map[string]Claims{
	"org":     {Org: orgO, Kind: tokens.Access},
	"a":       {Org: orgO, App: appA, Kind: tokens.Access},
	"b":       {Org: orgO, App: appB, Kind: tokens.Access},
	"other":   {Org: orgOther, Kind: tokens.Access},
	"refresh": {Org: orgO, App: appA, Kind: tokens.Refresh},
	"gone":    {Org: orgNone, Kind: tokens.Access},
}

// bearer is a token, as of a login a moment ago; one that nobody knows is sent as it is.
func (w *world) bearer(name string) string {
	w.t.Helper()
	claims, ok := bearers[name]
	if !ok {
		return name
	}
	codec, err := tokens.New(tokens.Options{Keys: w.keys, Issuer: "dynalimit", Audience: "budget", Now: w.clock.now})
	require.NoError(w.t, err)
	claims.ClientID, claims.ID, claims.Session, claims.Version = credentials.ClientID(claims.Org, claims.App), name, "session of "+name, 1
	claims.Issued, claims.Expires = w.clock.now().Truncate(time.Second), w.clock.now().Add(time.Hour)
	text, err := codec.Sign(claims)
	require.NoError(w.t, err)
	return text.Reveal()
}

// errSecret is what no client may read.
var errSecret = fmt.Errorf("dial tcp 10.1.2.3: secret-of-the-inside")

var worlds atomic.Int64

// engines runs a test on ddbmem, on ddbmem with faults, and on the engine at
// DYNALIMIT_TEST_ENDPOINT.
func engines(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	t.Run("ddbmem", func(t *testing.T) { test(t, newWorld(t)) })
	t.Run("faults", func(t *testing.T) {
		w := newWorld(t)
		w.db.SetFaults(flaky(uint64(len(t.Name()))))
		test(t, w)
		w.db.SetFaults(nil)
	})
	endpoint := os.Getenv("DYNALIMIT_TEST_ENDPOINT")
	if endpoint == "" {
		return
	}
	t.Run("endpoint", func(t *testing.T) {
		client := dynamodb.New(dynamodb.Options{
			BaseEndpoint: &endpoint, Region: "us-east-1",
			Credentials: awscredentials.NewStaticCredentialsProvider("x", "x", ""),
			HTTPClient:  engineHTTP,
		})
		w := &world{t: t, client: client, clock: &clock{}, log: &journal{}}
		w.start()
		test(t, w)
	})
}

// engineHTTP keeps no idle connection, so that nothing outlives the tests.
var engineHTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// flaky loses, delays, throttles or refuses one write in eight.
func flaky(seed uint64) ddbmem.FaultFunc {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	return func(r *ddbmem.Request) ddbmem.Fault {
		mu.Lock()
		n := rng.IntN(40)
		mu.Unlock()
		transaction := r.Operation == "TransactWriteItems"
		switch {
		case !transaction && r.Operation != "UpdateItem" && r.Operation != "PutItem":
			return ddbmem.Fault{}
		case n == 0:
			return ddbmem.Fault{Lose: true}
		case n == 1:
			return ddbmem.Fault{Drop: true}
		case n == 2:
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
		case n == 3 && transaction:
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}}}}
		}
		return ddbmem.Fault{}
	}
}

func newWorld(t testing.TB, adapt ...func(*budget.Options)) *world {
	w := &world{t: t, clock: &clock{}, log: &journal{}}
	w.db = ddbmem.New(ddbmem.WithClock(w.clock.now))
	t.Cleanup(func() { w.db.Close() })
	w.client = w.db.Client()
	w.start(adapt...)
	return w
}

func (w *world) start(adapt ...func(*budget.Options)) {
	w.clock.set(fixtureNow)
	id := worlds.Add(1)
	w.tables = budget.Tables{
		Control: fmt.Sprintf("control-http-%d-%d", os.Getpid(), id), Usage: fmt.Sprintf("usage-http-%d-%d", os.Getpid(), id),
	}
	w.limits = fmt.Sprintf("limits-http-%d-%d", os.Getpid(), id)
	repo, err := dynalimit.NewRepository(w.client, w.limits, &dynalimit.RepositoryOptions{Principal: "ann@example.com", Now: w.clock.now})
	require.NoError(w.t, err)
	require.NoError(w.t, repo.CreateTable(w.t.Context()))
	w.keys, err = credentials.NewKeySet(&counting{}, fixtureNow)
	require.NoError(w.t, err)
	first := w.keeper(adapt...)
	require.NoError(w.t, first.CreateTables(w.t.Context()))
	key, err := w.store().CreateKey(w.t.Context(), "tests")
	require.NoError(w.t, err)
	w.key = key.Secret.Reveal()
	w.a, w.b = w.node(first), w.node(w.keeper(adapt...))
	w.org(fixtureOrg())
	other := fixtureOrg()
	other.ID = orgOther
	w.org(other)
}

func (w *world) keeper(adapt ...func(*budget.Options)) *budget.Keeper {
	o := budget.Options{
		Now: w.clock.now, Principal: "ann@example.com", Models: fixtureModels,
		RequestTimeout: 10 * time.Second, Timeout: 20 * time.Second,
	}
	for _, f := range adapt {
		f(&o)
	}
	k, err := budget.New(w.client, w.tables, &o)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, k.Close(context.Background())) })
	return k
}

func (w *world) options() *Options {
	return &Options{
		Limiter: w.limiter(), Now: w.clock.now,
		Random: &counting{}, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	}
}

// counting is bytes that a test knows.
type counting struct{ n atomic.Uint64 }

func (c *counting) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(c.n.Add(1))
	}
	return len(b), nil
}

// limiter is one of a process of its own.
func (w *world) limiter() *dynalimit.RateLimiter {
	repo, err := dynalimit.NewRepository(w.client, w.limits, &dynalimit.RepositoryOptions{Principal: "ann@example.com", Now: w.clock.now})
	require.NoError(w.t, err)
	limiter, err := dynalimit.New(repo, &dynalimit.Options{Timeout: 20 * time.Second})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, limiter.Close(context.Background())) })
	return limiter
}

// store is a store of credentials with a memory of its own.
func (w *world) store() *credentials.Store {
	store, err := credentials.New(w.client, w.tables.Control, &credentials.Options{
		Keys: w.keys, Now: w.clock.now, Principal: "ann@example.com", RequestTimeout: 10 * time.Second, Timeout: 20 * time.Second,
	})
	require.NoError(w.t, err)
	return store
}

func (w *world) node(k *budget.Keeper) *node {
	s, err := New(k, w.store(), w.options())
	require.NoError(w.t, err)
	return w.serve(s, s)
}

// with is node a with other options.
func (w *world) with(adapt func(*Options)) *node {
	o := w.options()
	adapt(o)
	s, err := New(w.a.keeper, w.a.store, o)
	require.NoError(w.t, err)
	return w.serve(s, s)
}

// serve makes a node of a handler.
func (w *world) serve(s *Server, h http.Handler) *node {
	web := httptest.NewServer(h)
	w.t.Cleanup(web.Close)
	client := web.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &node{t: w.t, keeper: s.keeper, store: s.store, server: s, url: web.URL, client: client, token: "org", world: w}
}

// org puts an organisation.
func (w *world) org(o budget.Org) {
	w.t.Helper()
	_, err := w.a.keeper.PutOrg(w.t.Context(), o)
	require.NoError(w.t, err)
}

// spend charges a label as if calls had been made.
func (w *world) spend(app, label string, micros int64) {
	w.t.Helper()
	_, err := w.a.keeper.Adjust(w.t.Context(), orgO, app, budget.Adjustment{Label: label, DeltaMicros: micros, Reason: "test"})
	require.NoError(w.t, err)
	w.clock.advance(6 * time.Second) // past the staleness of the other node
}

// as is the node with somebody else asking; an empty name is nobody.
func (n *node) as(token string) *node {
	out := *n
	out.token = token
	return &out
}

// reply is an answer, read whole.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	raw    []byte
	body   map[string]any // nil when it is no object
}

// send makes a request; headers are pairs.
func (n *node) send(method, path string, body []byte, headers ...string) *reply {
	n.t.Helper()
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, reader)
	require.NoError(n.t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	switch n.token {
	case "":
	case "key":
		r.Header.Set("X-Api-Key", n.world.key)
	default:
		r.Header.Set("Authorization", "Bearer "+n.world.bearer(n.token))
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := n.client.Do(r)
	require.NoError(n.t, err)
	defer res.Body.Close()
	out := &reply{t: n.t, status: res.StatusCode, header: res.Header}
	out.raw, err = io.ReadAll(res.Body)
	require.NoError(n.t, err)
	_ = json.Unmarshal(out.raw, &out.body) // a body may be no object
	return out
}

// do sends a body as JSON.
func (n *node) do(method, path string, body any) *reply {
	n.t.Helper()
	var raw []byte
	if body != nil {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(n.t, err)
	}
	return n.send(method, path, raw)
}

func (n *node) get(path string) *reply {
	n.t.Helper()
	return n.do(http.MethodGet, path, nil)
}

// submit sends usage of app A.
func (n *node) submit(u example) *reply {
	n.t.Helper()
	return n.do(http.MethodPost, pathA+"/usage", u)
}

// is checks the status and returns the answer.
func (r *reply) is(status int) *reply {
	r.t.Helper()
	require.Equal(r.t, status, r.status, "%s", r.raw)
	if status >= http.StatusBadRequest {
		r.shaped()
	}
	return r
}

// fails checks the status and the code of an error.
func (r *reply) fails(status int, code wire.Code) *reply {
	r.t.Helper()
	r.is(status)
	require.Equal(r.t, string(code), r.body["error"], "%s", r.raw)
	return r
}

// shaped checks that an error has its shape, and tells nothing of the inside.
func (r *reply) shaped() {
	r.t.Helper()
	assert.Equal(r.t, "application/json", r.header.Get("Content-Type"))
	keys := make([]string, 0, len(r.body))
	for k := range r.body {
		keys = append(keys, k)
	}
	assert.ElementsMatch(r.t, []string{"error", "message", "details", "timestamp", "request_id"}, keys, "%s", r.raw)
	assert.IsType(r.t, map[string]any{}, r.body["details"])
	assert.Equal(r.t, r.header.Get("X-Request-Id"), r.body["request_id"])
	assert.NotContains(r.t, string(r.raw), "secret-of-the-inside")
	assert.Equal(r.t, "no-store", r.header.Get("Cache-Control"))
}

// at is a value of the body by its path, such as labels.0.label.
func (r *reply) at(path string) any {
	r.t.Helper()
	var v any = r.body
	for part := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[part]
		case []any:
			var i int
			_, err := fmt.Sscan(part, &i)
			require.NoError(r.t, err)
			require.Less(r.t, i, len(in), "%s of %s", path, r.raw)
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// number is a whole number of the body.
func (r *reply) number(path string) int64 {
	r.t.Helper()
	f, ok := r.at(path).(float64)
	require.True(r.t, ok, "%s of %s", path, r.raw)
	return int64(f)
}

// total is what node b sums for app A's label today, or on a day.
func (w *world) total(label, day string) *reply {
	w.t.Helper()
	r := w.b.get(pathA + "/aggregates/" + cmp.Or(day, "today")).is(http.StatusOK)
	for i, l := range r.at("labels").([]any) {
		if l.(map[string]any)["label"] == label {
			r.body = r.at(fmt.Sprintf("labels.%d", i)).(map[string]any)
			return r
		}
	}
	w.t.Fatalf("no label %s in %s", label, r.raw)
	return nil
}

// together runs f n times at once from so many goroutines.
func together(goroutines, n int, f func(i int)) {
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := g; i < n; i += goroutines {
				f(i)
			}
		})
	}
	group.Wait()
}

func wireJSON(v any) ([]byte, error) { return json.Marshal(v) }

// downFor drops every request of some operations.
func downFor(operations ...string) ddbmem.FaultFunc {
	return func(r *ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Drop: slices.Contains(operations, r.Operation)}
	}
}

// slow lets every write take its time.
func slow(d time.Duration) ddbmem.FaultFunc {
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "TransactWriteItems" {
			return ddbmem.Fault{Before: d}
		}
		return ddbmem.Fault{}
	}
}
