package credentials

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	orgO   = fixture.OrgO
	orgP   = fixture.OrgP
	appA   = fixture.AppA
	tester = fixture.Principal
)

var fixtureNow = fixture.Now

// chance is the same on every run.
func chance(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

// world is two nodes with separate caches on one table.
type world struct {
	t      testing.TB
	db     *ddbmem.DB // nil on a third-party engine
	client Client
	clock  *fixture.Clock
	table  string
	keys   *KeySet
	log    *fixture.Log
	a, b   *Store
}

// engines runs a test on every engine, without faults and with.
func engines(t *testing.T, test func(t *testing.T, w *world)) {
	fixture.Engines(t, func(t testing.TB, e *fixture.Engine) *world { return worldOn(t, e) }, test)
}

func newWorld(t testing.TB, adapt ...func(*Options)) *world {
	return worldOn(t, fixture.InProcess(t), adapt...)
}

func worldOn(t testing.TB, e *fixture.Engine, adapt ...func(*Options)) *world {
	w := &world{t: t, db: e.DB, client: e.Client, clock: e.Clock, table: fixture.Table("control"), log: &fixture.Log{}}
	var err error
	w.keys, err = NewKeySet(chance(1), fixtureNow.Add(-24*time.Hour))
	require.NoError(w.t, err)
	inputs, err := budget.Tables{Control: w.table, Usage: "usage"}.TableInputs()
	require.NoError(w.t, err)
	_, err = w.client.CreateTable(w.t.Context(), inputs[0])
	require.NoError(w.t, err)
	w.a, w.b = w.node(adapt...), w.node(adapt...)
	return w
}

// node adds a process.
func (w *world) node(adapt ...func(*Options)) *Store {
	o := Options{
		Keys: w.keys, Now: w.clock.Now, Principal: tester, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
		RequestTimeout: 10 * time.Second, Timeout: 20 * time.Second,
	}
	for _, f := range adapt {
		f(&o)
	}
	s, err := New(w.client, w.table, &o)
	require.NoError(w.t, err)
	return s
}

// client makes a client and fetches its secret.
func (w *world) create(s *Store, org, app string) Credentials {
	w.t.Helper()
	issued, err := s.Create(w.t.Context(), org, app)
	require.NoError(w.t, err)
	require.True(w.t, issued.Created)
	return w.retrieve(s, issued)
}

// retrieve fetches a secret.
func (w *world) retrieve(s *Store, issued Issued) Credentials {
	w.t.Helper()
	c, err := s.Retrieve(w.t.Context(), issued.Org, issued.App, issued.Token)
	require.NoError(w.t, err)
	return c
}

// rotate gives a client a further secret, and fetches it.
func (w *world) rotate(s *Store, org, app string, graceHours int) (Rotation, Credentials) {
	w.t.Helper()
	r, err := s.Rotate(w.t.Context(), org, app, graceHours)
	require.NoError(w.t, err)
	return r, w.retrieve(s, r.Issued)
}

// works checks whether a secret logs in, at both nodes.
func (w *world) works(want bool, c Credentials, why string) {
	w.t.Helper()
	for _, s := range []*Store{w.a, w.b} {
		identity, err := s.Verify(context.Background(), c.ClientID, c.Secret)
		if !want {
			require.ErrorIs(w.t, err, ErrInvalidCredentials, why)
			continue
		}
		require.NoError(w.t, err, why)
		require.Equal(w.t, c.ClientID, identity.ClientID)
	}
}
