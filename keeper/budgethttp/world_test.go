package budgethttp

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// world is two nodes, each a keeper and a server of its own, on the same tables.
type world struct {
	t       testing.TB
	engine  *fixture.Engine
	db      *ddbmem.DB // nil on a third-party engine
	client  *dynamodb.Client
	clock   *fixture.Clock
	tables  budget.Tables
	limits  string // the limiter's table
	a, b    *node
	log     *fixture.Log
	servers []*httptest.Server
	keys    *credentials.KeySet // of every node
	key     string              // a provisioning key
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

// engines runs a test on every engine, without faults and with.
func engines(t *testing.T, test func(t *testing.T, w *world)) {
	fixture.Engines(t, func(t testing.TB, e *fixture.Engine) *world { return worldOn(t, e) }, test)
}

func newWorld(t testing.TB, adapt ...func(*budget.Options)) *world {
	return worldOn(t, fixture.InProcess(t), adapt...)
}

func worldOn(t testing.TB, e *fixture.Engine, adapt ...func(*budget.Options)) *world {
	w := &world{
		t: t, engine: e, db: e.DB, client: e.Client, clock: e.Clock, log: &fixture.Log{}, limits: fixture.Table("limits"),
		tables: budget.Tables{Control: fixture.Table("control"), Usage: fixture.Table("usage")},
	}
	repo, err := dynalimit.NewRepository(w.client, w.limits, &dynalimit.RepositoryOptions{Principal: fixture.Principal, Now: w.clock.Now})
	require.NoError(w.t, err)
	require.NoError(w.t, repo.CreateTable(w.t.Context()))
	w.keys, err = credentials.NewKeySet(&counting{}, fixtureNow)
	require.NoError(w.t, err)
	first := w.keeper(adapt...)
	require.NoError(w.t, first.Setup().CreateTables(w.t.Context()))
	key, err := w.store().CreateKey(w.t.Context(), "tests")
	require.NoError(w.t, err)
	w.key = key.Secret.Reveal()
	w.a, w.b = w.node(first), w.node(w.keeper(adapt...))
	w.org(fixtureOrg())
	other := fixtureOrg()
	other.ID = orgOther
	w.org(other)
	return w
}

func (w *world) keeper(adapt ...func(*budget.Options)) *budget.Keeper {
	o := budget.Options{
		AllowUnknownApps: true,
		Now:              w.clock.Now, Principal: fixture.Principal, Models: fixtureModels,
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
		Limiter: w.limiter(), Now: w.clock.Now,
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
	repo, err := dynalimit.NewRepository(w.client, w.limits, &dynalimit.RepositoryOptions{Principal: fixture.Principal, Now: w.clock.Now})
	require.NoError(w.t, err)
	limiter, err := dynalimit.New(repo, &dynalimit.Options{Timeout: 20 * time.Second})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, limiter.Close(context.Background())) })
	return limiter
}

// store is a store of credentials with a memory of its own.
func (w *world) store() *credentials.Store {
	store, err := credentials.New(w.client, w.tables.Control, &credentials.Options{
		Keys: w.keys, Now: w.clock.Now, Principal: fixture.Principal, RequestTimeout: 10 * time.Second, Timeout: 20 * time.Second,
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
	w.servers = append(w.servers, web)
	client := web.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &node{t: w.t, keeper: s.keeper, store: s.store, server: s, url: web.URL, client: client, token: "org", world: w}
}

// finalLog is the log once every server has ended: a server answers before it writes its log.
func (w *world) finalLog() string {
	for _, web := range w.servers {
		web.Close()
	}
	return w.log.String()
}

// org puts an organisation.
func (w *world) org(o budget.Org) {
	w.t.Helper()
	_, err := w.a.keeper.Setup().PutOrg(w.t.Context(), o)
	require.NoError(w.t, err)
}

// spend charges a label as if calls had been made.
func (w *world) spend(app, label string, micros int64) {
	w.t.Helper()
	_, err := w.a.keeper.Setup().Adjust(w.t.Context(), orgO, app, budget.Adjustment{Label: label, DeltaMicros: micros, Reason: "test"})
	require.NoError(w.t, err)
	w.clock.Advance(6 * time.Second) // past the staleness of the other node
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
