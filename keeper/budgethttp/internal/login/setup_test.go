package login

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	orgO     = fixture.OrgO
	orgP     = fixture.OrgP
	appA     = fixture.AppA
	issuer   = "https://keeper.example.com"
	audience = "budget"
)

var (
	fixtureNow = fixture.Now
	home       = netip.MustParseAddr("203.0.113.7")
)

// address is the n-th address.
func address(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// requests notes the operations that a database is asked for.
type requests struct {
	mu  sync.Mutex
	ops []string
}

func (r *requests) logRequest(req *ddbmem.Request) ddbmem.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, req.Operation+" "+req.Table)
	return ddbmem.Fault{}
}

func (r *requests) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.ops
	r.ops = nil
	return taken
}

// world is two nodes on the same tables.
type world struct {
	crashed atomic.Int64 // logins that were begun by a process that ended
	t       testing.TB
	db      *ddbmem.DB
	clock   *fixture.Clock
	keys    *credentials.KeySet
	wire    *requests
	a, b    *node
}

// node is one process.
type node struct {
	*Service
	store *credentials.Store
}

func newWorld(t testing.TB, adapt ...func(*Options)) *world {
	e := fixture.InProcess(t)
	w := &world{t: t, db: e.DB, clock: e.Clock, wire: &requests{}}
	inputs, err := budget.Tables{Control: "control", Usage: "usage"}.TableInputs()
	require.NoError(t, err)
	_, err = w.db.Client().CreateTable(t.Context(), inputs[0])
	require.NoError(t, err)
	w.keys, err = credentials.NewKeySet(nil, fixtureNow.Add(-time.Hour))
	require.NoError(t, err)
	require.NoError(t, w.repository().CreateTable(t.Context()))
	w.a, w.b = w.node(adapt...), w.node(adapt...)
	w.db.SetFaults(w.wire.logRequest)
	return w
}

func (w *world) repository() *dynalimit.Repository {
	repo, err := dynalimit.NewRepository(w.db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "test", Now: w.clock.Now})
	require.NoError(w.t, err)
	return repo
}

// storeOf is a store of credentials with keys of its own.
func (w *world) storeOf(keys credentials.KeySource) *credentials.Store {
	store, err := credentials.New(w.db.Client(), "control", &credentials.Options{
		Keys: keys, Now: w.clock.Now, Principal: "test", Timeout: 20 * time.Second, RequestTimeout: 10 * time.Second,
	})
	require.NoError(w.t, err)
	return store
}

// brief is a node that does not wait long for the table of credentials.
func (w *world) brief() *node {
	return w.node(func(o *Options) {
		store, err := credentials.New(w.db.Client(), "control", &credentials.Options{
			Keys: w.keys, Now: w.clock.Now, Timeout: 50 * time.Millisecond, RequestTimeout: 20 * time.Millisecond,
		})
		require.NoError(w.t, err)
		o.Store = store
	})
}

func (w *world) node(adapt ...func(*Options)) *node {
	store := w.storeOf(w.keys)
	limiter, err := dynalimit.New(w.repository(), &dynalimit.Options{Timeout: 20 * time.Second})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, limiter.Close(context.Background())) })
	o := Options{Store: store, Limiter: limiter, Issuer: issuer, Audience: audience}
	for _, f := range adapt {
		f(&o)
	}
	s, err := New(o)
	require.NoError(w.t, err)
	return &node{s, store}
}

// client makes a client of an organisation or app.
func (w *world) client(org, app string) credentials.Credentials {
	w.t.Helper()
	issued, err := w.a.store.Create(w.t.Context(), org, app)
	require.NoError(w.t, err)
	c, err := w.a.store.Retrieve(w.t.Context(), org, app, issued.Token)
	require.NoError(w.t, err)
	return c
}

// token logs a client in, from home.
func (w *world) token(n *node, c credentials.Credentials) Grant {
	w.t.Helper()
	g, err := n.Token(w.t.Context(), home, c.ClientID, c.Secret)
	require.NoError(w.t, err)
	return g
}

// carried checks whether an access token lets somebody in.
func (w *world) carried(want bool, n *node, access credentials.Secret, why string) {
	w.t.Helper()
	_, err := n.Authenticate(w.t.Context(), access)
	if want {
		require.NoError(w.t, err, why)
		return
	}
	require.ErrorIs(w.t, err, ErrUnauthorized, why)
}

// items are the partitions of the limiter's table that have something in them.
func (w *world) items(table string) string {
	w.t.Helper()
	return fmt.Sprint(scan(w.t, w.db, table))
}
