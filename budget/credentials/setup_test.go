package credentials

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	orgO   = "550e8400-e29b-41d4-a716-446655440000"
	orgP   = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
	appA   = "app-production-api"
	tester = "ann@example.com"
)

var fixtureNow = time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)

// clock is a settable time.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.set(fixtureNow)
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.ns.Load()).UTC() }
func (c *clock) set(t time.Time)         { c.ns.Store(t.UnixNano()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// buffer is a log that several goroutines write.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// chance is the same on every run.
func chance(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

// world is two nodes with separate caches on one table.
type world struct {
	t      testing.TB
	db     *ddbmem.DB // nil on a third-party engine
	client Client
	clock  *clock
	table  string
	keys   *KeySet
	log    *buffer
	a, b   *Store
}

var worlds atomic.Int64

func newWorld(t testing.TB, adapt ...func(*Options)) *world {
	w := &world{t: t, clock: newClock()}
	w.db = ddbmem.New(ddbmem.WithClock(w.clock.now))
	t.Cleanup(w.db.Close)
	w.client = w.db.Client()
	w.start(adapt...)
	return w
}

func (w *world) start(adapt ...func(*Options)) {
	var err error
	w.keys, err = NewKeySet(chance(1), fixtureNow.Add(-24*time.Hour))
	require.NoError(w.t, err)
	tables := budget.Tables{Control: fmt.Sprintf("control-%d-%d", os.Getpid(), worlds.Add(1)), Usage: "usage"}
	inputs, err := tables.TableInputs()
	require.NoError(w.t, err)
	_, err = w.client.CreateTable(w.t.Context(), inputs[0])
	require.NoError(w.t, err)
	w.table, w.log = tables.Control, &buffer{}
	w.a, w.b = w.node(adapt...), w.node(adapt...)
}

// node adds a process.
func (w *world) node(adapt ...func(*Options)) *Store {
	o := Options{
		Keys: w.keys, Now: w.clock.now, Principal: tester, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
		RequestTimeout: 10 * time.Second, Timeout: 20 * time.Second,
	}
	for _, f := range adapt {
		f(&o)
	}
	s, err := New(w.client, w.table, &o)
	require.NoError(w.t, err)
	return s
}

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
		w := &world{t: t, clock: newClock(), client: dynamodb.New(dynamodb.Options{
			BaseEndpoint: &endpoint, Region: "us-east-1",
			Credentials: awscredentials.NewStaticCredentialsProvider("x", "x", ""),
			HTTPClient:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, // nothing outlives the tests
		})}
		w.start()
		test(t, w)
	})
}

// flaky loses, drops, throttles or refuses one write in eight, and leaves keys of one
// batch in four unprocessed.
func flaky(seed uint64) ddbmem.FaultFunc {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	return func(r *ddbmem.Request) ddbmem.Fault {
		mu.Lock()
		n := rng.IntN(40)
		mu.Unlock()
		switch r.Operation {
		case "BatchGetItem":
			if n < 10 {
				return ddbmem.Fault{Unprocessed: 1 + n%3}
			}
			return ddbmem.Fault{}
		case "TransactWriteItems":
			if n == 4 {
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}}}}
			}
		case "UpdateItem", "PutItem":
			if n == 4 {
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionConflictException"}}
			}
		default:
			return ddbmem.Fault{}
		}
		switch n {
		case 0, 1:
			return ddbmem.Fault{Lose: true}
		case 2:
			return ddbmem.Fault{Drop: true}
		case 3:
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
		}
		return ddbmem.Fault{}
	}
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
